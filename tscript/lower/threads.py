"""On a CPU, hardware threads become loops that run one after the other."""

from __future__ import annotations

from typing import Any, Final

from tscript.ir.construct import cast, const
from tscript.ir.expr import Call, IterVar, Op, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, substitute
from tscript.ir.stmt import AttrStmt, Evaluate, For, ForKind, Stmt
from tscript.support.errors import LoweringError

_COOPERATIVE: Final = {
    "tir.tvm_storage_sync": "waits for the other threads of its group",
    "tir.tvm_thread_allreduce": "adds up values of all threads of its group",
    "tir.tvm_global_barrier_kinit": "waits for all threads",
    "tir.tvm_warp_shuffle": "reads a value of another thread",
    "tir.tvm_warp_shuffle_up": "reads a value of another thread",
    "tir.tvm_warp_shuffle_down": "reads a value of another thread",
}


def serialize_threads(func: PrimFunc) -> PrimFunc:
    """Run thread indices as serial loops.

    Raises LoweringError where threads depend on each other, which loops in sequence cannot stand for.
    """
    return func.replace(body=_SerializeThreads().rewrite(func.body))


class _SerializeThreads(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self._open: dict[str, Var] = {}

    def rewrite_For(self, loop: For) -> Any:
        if loop.kind != ForKind.THREAD_BINDING:
            return self.rewrite_children(loop)
        return self.rewrite_children(loop.replace(kind=ForKind.SERIAL, thread_binding=None))

    def rewrite_AttrStmt(self, attr: AttrStmt) -> Any:
        if attr.attr_key not in ("thread_extent", "virtual_thread") or not isinstance(attr.node, IterVar):
            return self.rewrite_children(attr)
        axis = attr.node
        tag = axis.thread_tag or axis.var.name
        outer = self._open.get(tag)
        if outer is not None:
            # The same hardware index again: it has the value it has around here.
            inner = attr.body if axis.var is outer else substitute(attr.body, {axis.var: cast(outer, axis.var.dtype)})
            return self.rewrite(inner)
        # The same index may be launched at several places; each becomes a loop with a variable of its own.
        var = axis.var.copy_with()
        body: Stmt = substitute(attr.body, {axis.var: var})
        self._open[tag] = var
        body = self.rewrite(body)
        del self._open[tag]
        extent: PrimExpr = cast(attr.value, var.dtype)
        return For(var, const(0, var.dtype), extent, ForKind.SERIAL, body, span=attr.span)

    def rewrite_Evaluate(self, s: Evaluate) -> Any:
        call = s.value
        if isinstance(call, Call) and isinstance(call.op, Op) and call.op.name in _COOPERATIVE:
            where = f" ({s.span})" if s.span else ""
            what = f"T.{call.op.name.removeprefix('tir.')} {_COOPERATIVE[call.op.name]}"
            raise LoweringError(f'{what}, which loops on a CPU cannot do{where}\n  try: build with target="cuda"')
        return self.rewrite_children(s)
