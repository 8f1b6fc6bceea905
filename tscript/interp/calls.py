"""Translation of calls: intrinsics that are no plain operators, functions of the module, external functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tscript.interp.access import offset_of, pointer_behind, view_of
from tscript.interp.emit import EXPRESSIONS, VECTORS, Gen, Val, handles, nodes_below
from tscript.interp.exprs import any_value, choose_lazily, elementwise, expr
from tscript.interp.scalar import CALLS, float_code, integer, number
from tscript.ir import expr as ex
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import Call, GlobalVar, Op, PrimExpr
from tscript.support.errors import InterpError
from tscript.support.wording import with_article

BARRIERS = frozenset({"tvm_storage_sync", "tvm_thread_allreduce", "ptx_mma", "ptx_ldmatrix"})
"""Intrinsics at which the threads of a block wait for each other."""
SPECIAL: dict[str, Callable[[Gen, Call], Val]] = {}
"""Intrinsics by name without prefix."""


def special(*names: str) -> Callable[[Callable[[Gen, Call], Val]], Callable[[Gen, Call], Val]]:
    """Register the translation of intrinsics."""

    def register(fn: Callable[[Gen, Call], Val]) -> Callable[[Gen, Call], Val]:
        for name in names:
            SPECIAL[name] = fn
        return fn

    return register


def intrinsic_name(e: object) -> str:
    """The name of the intrinsic that `e` calls, without prefix; "" for anything else."""
    return e.op.name.removeprefix("tir.") if isinstance(e, Call) and isinstance(e.op, Op) else ""


@handles(EXPRESSIONS, Call)
@handles(VECTORS, Call)
def _call(g: Gen, e: Call) -> Val:
    if isinstance(e.op, GlobalVar):
        return _call_function(g, e, e.op)
    name = intrinsic_name(e)
    if name in CALLS:
        return elementwise(g, e, e.args, e.args[0].dtype.element, CALLS[name])
    handler = SPECIAL.get(name)
    if handler is not None:
        return handler(g, e)
    return any_value(f"_unsupported({name!r})", e.dtype)


def calls_barrier(g: Gen, callee: GlobalVar) -> bool:
    """Whether a function of the module, or one that it calls, holds a barrier."""
    seen: set[str] = set()
    names = [callee.name_hint]
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        for func in (f for v, (f, _) in g.functions.items() if v.name_hint == name):
            for n in nodes_below(func.body):
                if intrinsic_name(n) in BARRIERS:
                    return True
                if isinstance(n, Call) and isinstance(n.op, GlobalVar):
                    names.append(n.op.name_hint)
    return False


def _call_function(g: Gen, e: Call, callee: GlobalVar) -> Val:
    found = g.functions.get(callee)
    if found is None:
        found = next((f for v, f in g.functions.items() if v.name_hint == callee.name_hint), None)
    if g.in_threads and calls_barrier(g, callee):
        raise InterpError(
            f"the threads of a launch call {callee.name_hint}, which has a barrier; write its body into the launch"
        )
    if found is None:
        raise InterpError(f"function {callee.name_hint} is called but the module does not have it")
    func, name = found
    if len(e.args) != len(func.params):
        raise InterpError(f"{callee.name_hint} takes {len(func.params)} arguments, not {len(e.args)}")
    for a, p in zip(e.args, func.params, strict=True):
        if a.dtype is not p.dtype:
            raise InterpError(
                f"{callee.name_hint} takes {with_article(p.dtype)} for {p.name}, not {with_article(a.dtype)}"
            )
    args = "".join(f", {expr(g, a).code}" for a in e.args)
    return any_value(f"{name}(_run{args})", e.dtype)


def pointer_of(g: Gen, e: PrimExpr) -> str:
    """Source of an address."""
    return g.hold(expr(g, e)).code


@special("if_then_else")
def _if_then_else(g: Gen, e: Call) -> Val:
    return choose_lazily(g, e.args[0], e.args[1], e.args[2])


@special("assume")
def _assume(g: Gen, e: Call) -> Val:
    g.line(f"if not ({expr(g, e.args[0]).code}): raise _assumption_fails()")
    return number(1)


@special("undef")
def _undef(g: Gen, e: Call) -> Val:
    dtype = e.dtype.element
    if dtype.is_float:
        v = Val(float_code(g, float("nan")), True)
    else:
        low, high = int_range(dtype)
        v = number(high if dtype.is_uint or dtype.is_bool else max(low, -1))
    return v if e.dtype.lanes == 1 else Val(f"[{v.code}] * {e.dtype.lanes}", False, v.lo, v.hi)


@special("reinterpret")
def _reinterpret(g: Gen, e: Call) -> Val:
    source: DataType = e.args[0].dtype
    if source.is_handle or e.dtype.is_handle:
        raise InterpError(f"addresses have no bits here: reinterpret of {source!s} as {e.dtype!s} cannot be run")
    if source.bytes * source.lanes != e.dtype.bytes * e.dtype.lanes:
        raise InterpError(f"reinterpret of {source!s} as {e.dtype!s} changes the number of bits")
    code = f"_reinterpret({g.constant('_type', source)}, {g.constant('_type', e.dtype)}, {expr(g, e.args[0]).code})"
    return any_value(code, e.dtype)


@special("large_uint_imm")
def _large_uint(g: Gen, e: Call) -> Val:
    low, high = (int(a) for a in e.args)
    return number(high << 32 | low)


def _lanes(pick: Callable[[int], str]) -> Callable[[Gen, Call], Val]:
    def op(g: Gen, e: Call) -> Val:
        v = g.hold(expr(g, e.args[0]))
        half = e.args[0].dtype.lanes // 2
        return Val(f"{v.code}[{pick(half)}]" + "[0]" * (half == 1), False, v.lo, v.hi)

    return op


SPECIAL["vectorlow"] = _lanes(lambda half: f":{half}")
SPECIAL["vectorhigh"] = _lanes(lambda half: f"{half}:")


@special("vectorcombine")
def _combine(g: Gen, e: Call) -> Val:
    parts = [g.hold(expr(g, a)) for a in e.args]
    code = ", ".join(f"*{p.code}" if a.dtype.lanes > 1 else p.code for p, a in zip(parts, e.args, strict=True))
    return Val(f"[{code}]", False, min(p.lo for p in parts), max(p.hi for p in parts))


@special("get_active_lane_mask")
def _lane_mask(g: Gen, e: Call) -> Val:
    base, limit = (g.hold(expr(g, a)) for a in e.args)
    return Val(f"[{base.code} + _i < {limit.code} for _i in range({e.dtype.lanes})]", False, 0, 1)


@special("dp4a")
def _dp4a(g: Gen, e: Call) -> Val:
    a, b, c = (g.hold(expr(g, x)) for x in e.args)
    low, high = int_range(e.dtype)
    code = f"_dot4({a.code}, {b.code}, {c.code}, {not e.args[0].dtype.is_uint})"
    return integer(g, e.dtype, code, 4 * low, 4 * high, 1 << 30)


# -- addresses ------------------------------------------------------------------------------------


@special("tvm_access_ptr")
def _access_ptr(g: Gen, e: Call) -> Val:
    annotation, data, offset, extent, _ = e.args
    kind = g.constant("_type", annotation.dtype)
    return Val(f"{pointer_of(g, data)}.moved({expr(g, offset).code}, {kind}, {expr(g, extent).code})")


@special("address_of")
def _address_of(g: Gen, e: Call) -> Val:
    target = e.args[0]
    if not isinstance(target, ex.BufferLoad):
        raise InterpError("address_of takes an element of a buffer, as in T.address_of(A[0])")
    view = view_of(g, target.buffer)
    at = offset_of(g, view, [expr(g, i) for i in target.indices])
    return Val(f"_address({pointer_behind(g, view)}, {at.code}, {g.constant('_type', target.buffer.dtype.element)})")


@special("isnullptr")
def _is_null(g: Gen, e: Call) -> Val:
    return Val(f"{pointer_of(g, e.args[0])} is None", False, 0, 1)


@special("tvm_tuple")
def _tuple(g: Gen, e: Call) -> Val:
    return Val("(" + "".join(f"{expr(g, a).code}, " for a in e.args) + ")")


@special("type_annotation", "tvm_static_handle")
def _nothing(g: Gen, e: Call) -> Val:
    return Val("None", True, level=0)


# -- functions outside ----------------------------------------------------------------------------


@special("call_extern", "call_pure_extern", "tvm_call_packed", "tvm_call_cpacked")
def _extern(g: Gen, e: Call) -> Val:
    callee = e.args[0]
    if not isinstance(callee, ex.StringImm):
        raise InterpError("an external call starts with the name of the function, a text")
    args = "".join(f"{expr(g, a).code}, " for a in e.args[1:])
    return any_value(f"_extern({callee.value!r}, {g.constant('_type', e.dtype)}, ({args}))", e.dtype)


@special("prefetch", "ignore_loop_partition", "start_profile_intrinsic", "end_profile_intrinsic")
def _hint(g: Gen, e: Call) -> Val:
    return number(0)


@special("ret")
def _ret_value(g: Gen, e: Call) -> Val:
    raise InterpError("T.ret is a statement of its own; it cannot be part of an expression")


def is_undef(e: Any) -> bool:
    """Whether `e` is a value nobody defined."""
    return intrinsic_name(e) == "undef" or (isinstance(e, ex.Broadcast) and is_undef(e.value))
