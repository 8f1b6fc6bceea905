"""How much arithmetic a program does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tscript.arith.simplify import simplify
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.expr import FloatImm, IntImm, PrimExpr
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import Visitor, children


@dataclass(frozen=True, slots=True)
class Operations:
    """Arithmetic operations, calls of mathematical functions, and calls whose arithmetic is not known.

    Only the first are FLOPs; `math` and `opaque` tell what they leave out.
    """

    flops: int = 0
    math: int = 0
    opaque: int = 0

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.flops + other.flops, self.math + other.math, self.opaque + other.opaque)


_NONE: Final = Operations()
_ARITHMETIC: Final = (ex.Add, ex.Sub, ex.Mul, ex.Div, ex.Mod, ex.FloorDiv, ex.FloorMod, ex.Min, ex.Max)
_FREE: Final = (ex.CmpExpr, ex.LogicExpr, ex.Not, ex.BufferLoad, ex.Ramp)

# Calls that move data, name memory or order threads, and compute nothing.
_MOVES: Final = re.compile(
    r"tir\.(tvm_access_ptr|address_of|tvm_load_matrix_sync|tvm_store_matrix_sync|tvm_fill_fragment|ptx_ldmatrix|ptx_cp_async"
    r"|ptx_(commit|wait)_group|mma_(fill|load|store)|tvm_storage_sync|type_annotation|likely|reinterpret|assume|undef"
    r"|tvm_stack_\w+|vector(low|high|combine)|ret|lookup_param|large_uint_imm|bitwise_\w+|shift_\w+"
    r"|isnan|isinf|isfinite|isnullptr|tvm_warp_\w+|tvm_thread_invariant|infinity)"
)
_UNKNOWN: Final = re.compile(
    r"tir\.(call_\w*|tvm_call\w*|tvm_\w*mma\w*|ptx_\w*mma\w*|simdgroup_\w+|tvm_thread_allreduce|anylist\w*|dma_\w+)"
)
# Operations of one instruction of a vector or matrix unit, each product and each sum counted.
_INSTRUCTIONS: Final = {
    "llvm.x86.avx512.vpdpbusd.512": 128,
    "llvm.x86.avx512.vpdpbusd.256": 64,
    "llvm.x86.avx512.vpdpbusd.128": 32,
    "llvm.x86.avx512bf16.dpbf16ps.512": 64,
    "llvm.x86.avx512bf16.dpbf16ps.256": 32,
    "llvm.x86.avx512bf16.dpbf16ps.128": 16,
    **dict.fromkeys((f"llvm.x86.tdpb{types}d" for types in ("ss", "su", "us", "uu")), 2 * 16 * 16 * 64),
    "llvm.x86.tdpbf16ps": 2 * 16 * 16 * 32,
    **dict.fromkeys((f"llvm.aarch64.neon.{sign}dot.v4i32.v16i8" for sign in "su"), 32),
}


def _call_itself(e: ex.Call) -> Operations:
    """What a call does besides evaluating its arguments."""
    if not isinstance(e.op, ex.Op):
        return Operations(opaque=1)
    name = e.op.name
    if name == "tir.dp4a":
        return Operations(8)
    texts = [a.value for a in e.args if isinstance(a, ex.StringImm)]
    if name == "tir.ptx_mma" and texts and (shape := re.fullmatch(r"m(\d+)n(\d+)k(\d+)", texts[0])):
        m, n, k = map(int, shape.groups())
        return Operations(2 * m * n * k)
    known = instruction_flops(e)
    if known:
        return Operations(known)
    if _UNKNOWN.fullmatch(name):
        return Operations(opaque=1)
    if _MOVES.fullmatch(name):
        return _NONE
    return Operations(math=e.dtype.lanes)


def instruction_flops(e: ex.Call) -> int:
    """The operations of one instruction of a vector or matrix unit that a call names; 0 where it names none known.

    >>> from tscript.script import tir as T
    >>> instruction_flops(T.call_llvm_intrin("void", "llvm.x86.tdpbssd", T.int8(0), T.int8(1), T.int8(2)))
    32768
    """
    return next((_INSTRUCTIONS[a.value] for a in e.args if isinstance(a, ex.StringImm) and a.value in _INSTRUCTIONS), 0)


def operations(root: PrimExpr) -> Operations:
    """What evaluating `root` takes. A vector operation counts once for each lane; subscripts of loads are left out.

    Each of `+ - * / // %`, `min` and `max` is one; comparisons, logic, casts and loads are none; of the branches of
    `Select` and `if_then_else` the dearer one counts. What occurs twice counts twice.

    >>> x = ex.Var("x", "float32")
    >>> operations(x * x + x)
    Operations(flops=2, math=0, opaque=0)
    """
    return _counted(root, _call_itself, weigh_lanes=True)


def _counted(root: PrimExpr, call: Callable[[ex.Call], Operations], weigh_lanes: bool) -> Operations:
    memo: dict[PrimExpr, Operations] = {}
    stack = [root]
    while stack:
        e = stack[-1]
        if e in memo:
            stack.pop()
            continue
        below = [] if isinstance(e, _FREE) else [c for c in children(e) if isinstance(c, PrimExpr)]
        todo = [c for c in below if c not in memo]
        if todo:
            stack.extend(todo)
            continue
        memo[e] = _combined(e, [memo[c] for c in below], call, weigh_lanes)
        stack.pop()
    return memo[root]


def _combined(
    e: PrimExpr, parts: list[Operations], call: Callable[[ex.Call], Operations], weigh_lanes: bool
) -> Operations:
    if isinstance(e, ex.Select) or (isinstance(e, ex.Call) and _name(e) == "tir.if_then_else"):
        return parts[0] + max(parts[1:], key=lambda p: (p.flops, p.math, p.opaque))
    total = sum(parts, _NONE)
    if isinstance(e, _ARITHMETIC):
        return total + Operations(e.dtype.lanes if weigh_lanes else 1)
    return total + call(e) if isinstance(e, ex.Call) else total


def _name(e: ex.Call) -> str:
    return e.op.name if isinstance(e.op, ex.Op) else ""


class _Flops(Visitor):
    """TVM's estimate of statements: loops multiply, the dearer branch counts."""

    def __init__(self) -> None:
        self.total = 0.0

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        """An expression that is evaluated."""
        self.total += _counted(node, lambda _: _NONE, weigh_lanes=False).flops

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        """The value that is stored."""
        self.visit(node.value)

    def visit_For(self, node: st.For) -> None:
        """The body, as often as the loop runs; once where that is not known."""
        extent = simplify(node.extent)
        self.total += (extent.value if isinstance(extent, IntImm) else 1) * self.of(node.body)

    def visit_While(self, node: st.While) -> None:
        """Once: how often is not known."""
        self.total += self.of(node.condition) + self.of(node.body)

    def visit_IfThenElse(self, node: st.IfThenElse) -> None:
        """The condition and the dearer branch."""
        other = 0.0 if node.else_case is None else self.of(node.else_case)
        self.total += self.of(node.condition) + max(self.of(node.then_case), other)

    def visit_BlockRealize(self, node: st.BlockRealize) -> None:
        """The block; bindings and guard are index arithmetic."""
        self.visit(node.block)

    def visit_Block(self, node: st.Block) -> None:
        """Init and body."""
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)

    def visit_Allocate(self, node: st.Allocate) -> None:
        """Sizes of memory are no work."""
        self.visit(node.body)

    def visit_DeclBuffer(self, node: st.DeclBuffer) -> None:
        """The layout of a buffer is no work."""
        self.visit(node.body)

    def visit_AttrStmt(self, node: st.AttrStmt) -> None:
        """What the attribute surrounds; it may be the loop over a thread."""
        extent = node.value if node.attr_key in ("thread_extent", "virtual_thread") else None
        self.total += (extent.value if isinstance(extent, IntImm) else 1) * self.of(node.body)

    def of(self, node: st.Stmt | PrimExpr) -> float:
        """The estimate of one part."""
        part = _Flops()
        part.visit(node)
        return part.total


def estimate_tir_flops(stmt_or_mod: st.Stmt | PrimFunc | IRModule) -> float:
    """The arithmetic operations of a statement, function or module, as TVM counts them.

    Each of `+ - * / // %`, `min` and `max` in a stored value is one, also of integers and also on vectors; what calls
    do is not counted; a loop whose extent is not known counts once. The attribute `estimated_flops` of a function
    overrides. `estimate_cost` is more exact. Raises TypeError for anything else.

    >>> from tscript.testing.workloads import matmul
    >>> estimate_tir_flops(matmul(8, 16, 32).func)
    8192.0
    """
    if isinstance(stmt_or_mod, IRModule):
        return float(sum(estimate_tir_flops(f) for f in stmt_or_mod.functions.values()))
    if isinstance(stmt_or_mod, PrimFunc):
        given = stmt_or_mod.attrs.get("estimated_flops")
        if isinstance(given, (int, float, IntImm, FloatImm)):
            return float(given if isinstance(given, (int, float)) else given.value)
        return _Flops().of(stmt_or_mod.body)
    if not isinstance(stmt_or_mod, st.Stmt):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"arithmetic is counted in a statement, function or module, not in {stmt_or_mod!r}")
    return _Flops().of(stmt_or_mod)


__all__ = ["Operations", "instruction_flops", "estimate_tir_flops", "operations"]
