"""Conversions, choices, bindings and reductions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tscript.ir import construct
from tscript.ir.construct import const, convert
from tscript.ir.dtype import DataType
from tscript.ir.expr import Cast as CastNode
from tscript.ir.expr import (
    CommReducer,
    ExprLike,
    IntImm,
    IterVar,
    PrimExpr,
    Range,
    Reduce,
    StringImm,
    Var,
)
from tscript.ir.expr import Let as LetNode
from tscript.ir.expr import Select as SelectNode
from tscript.ir.threads import require_thread
from tscript.parser.dialect.values import Value, call, op_function
from tscript.support.wording import with_article

# -- conversions ----------------------------------------------------------------------------------


def cast(value: Value, dtype: str) -> PrimExpr:
    """`value` converted to `dtype`; constants fold, and a value of that type is itself."""
    _check_order("T.cast(value, dtype)", value, dtype)
    return construct.cast(value, dtype)


def Cast(dtype: str, value: Value) -> PrimExpr:
    """A conversion that stays in the program, folded never."""
    _check_order("T.Cast(dtype, value)", value, dtype)
    return CastNode(DataType(dtype), convert(value))


def _check_order(call_form: str, value: Value, dtype: object) -> None:
    if isinstance(value, str) and not isinstance(dtype, str):
        raise TypeError(f"the arguments are in the wrong order; write {call_form}")


def reinterpret(dtype: str, value: Value) -> PrimExpr:
    """The bits of `value` as a `dtype` of the same size. Raises TypeError when the sizes differ."""
    e, target = convert(value), DataType(dtype)
    if e.dtype is target:
        return e
    if not e.dtype.is_handle and not target.is_handle:
        source_bits, target_bits = e.dtype.bits * e.dtype.lanes, target.bits * target.lanes
        if source_bits != target_bits:
            raise TypeError(
                f"cannot read the {source_bits} bits of {with_article(e.dtype)} as {target!s}, "
                f"which has {target_bits}; T.Cast converts the value"
            )
    return call(target, "reinterpret", e)


def type_annotation(dtype: str) -> PrimExpr:
    """The mark for an element type among the arguments of `tvm_access_ptr`."""
    return call(dtype, "type_annotation")


# -- choices --------------------------------------------------------------------------------------


@op_function
def if_then_else(cond: Value, t: Value, f: Value) -> PrimExpr:
    """`t` where `cond` holds, else `f`; only the chosen one is evaluated. A constant condition folds."""
    return construct.if_then_else(cond, t, f)


def Select(condition: Value, true_value: Value, false_value: Value) -> PrimExpr:
    """`true_value` where `condition` holds, else `false_value`; both are evaluated, and nothing folds."""
    chosen, other = construct.branch_operands(true_value, false_value)
    return SelectNode(convert(condition), chosen, other)


@op_function
def likely(cond: Value) -> PrimExpr:
    """`cond`, marked as nearly always true."""
    e = convert(cond)
    return e if isinstance(e, IntImm) else call(e.dtype, "likely", e)


@op_function
def assume(cond: Value) -> PrimExpr:
    """A promise that `cond` holds, to be used as a statement."""
    e = convert(cond)
    if not e.dtype.is_bool:
        raise TypeError(f"an assumption is a bool, not {e.dtype!s}")
    return call("bool", "assume", e)


@op_function
def undef() -> PrimExpr:
    """A value the program does not care about, as the value of a store."""
    return call("int32", "undef")


@op_function
def ret(val: Value) -> PrimExpr:
    """Return `val` from the function, as a statement."""
    e = convert(val)
    if isinstance(e, StringImm):
        raise TypeError("a kernel returns a number or a pointer, not a text")
    return call(e.dtype, "ret", e)


@op_function
def ignore_loop_partition(predicate: Value) -> PrimExpr:
    """`predicate`, kept as it is when loops are partitioned."""
    e = convert(predicate)
    return call(e.dtype, "ignore_loop_partition", e)


def all(*conditions: Value) -> PrimExpr:
    """Whether every condition holds; True for none."""
    return functools.reduce(construct.and_, conditions, const(True))


def any(*conditions: Value) -> PrimExpr:
    """Whether some condition holds; False for none."""
    return functools.reduce(construct.or_, conditions, const(False))


# -- bindings and reductions ----------------------------------------------------------------------


def Let(expr: Value, where: Mapping[Any, Value]) -> PrimExpr:
    """`expr` with variables bound to values, the first in `where` outermost."""
    result = convert(expr)
    bindings: list[tuple[Any, Any]] = list(where.items())
    for var, value in reversed(bindings):
        if not isinstance(var, Var):
            raise TypeError(f"T.Let binds variables, not {var}")
        bound = convert(value)
        if not isinstance(value, PrimExpr) and bound.dtype is not var.dtype:
            bound = const(value, var.dtype)
        result = LetNode(var, bound, result)
    return result


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Value]) -> CommReducer:
    """An associative, commutative combination.

    `combiner` takes all left operands, then all right ones, and returns the combined value, or a tuple
    of them; `identity` has one neutral element for each. Raises TypeError when the numbers disagree.
    """
    names = list(inspect.signature(combiner).parameters)
    neutral = tuple(convert(e) for e in identity)
    count = len(neutral)
    if len(names) != 2 * count:
        raise TypeError(
            f"a reduction of {count} values takes a combiner of {2 * count} parameters (left ones first), "
            f"not {len(names)}"
        )
    lhs = tuple(Var(n, e.dtype) for n, e in zip(names[:count], neutral, strict=True))
    rhs = tuple(Var(n, e.dtype) for n, e in zip(names[count:], neutral, strict=True))
    made = combiner(*lhs, *rhs)
    results = tuple(convert(r) for r in (made if isinstance(made, (tuple, list)) else (made,)))  # pyright: ignore[reportUnknownVariableType]
    if len(results) != count:
        raise TypeError(f"the combiner gives {len(results)} values for {count} identity elements")
    return CommReducer(lhs, rhs, results, neutral)


def reduce(
    combiner: CommReducer,
    source: Sequence[Value],
    init: Sequence[Value] = (),
    axis: Sequence[IterVar] = (),
    condition: Value = True,
    value_index: int = 0,
) -> PrimExpr:
    """The reduction of `source` over `axis` where `condition` holds: result number `value_index`."""
    return Reduce(
        combiner,
        tuple(convert(s) for s in source),
        tuple(convert(i) for i in init),
        tuple(axis),
        convert(condition),
        value_index,
    )


def iter_var(
    v: Var | str, dom: Range | Sequence[ExprLike] | None, iter_type: str | int, thread_tag: str = ""
) -> IterVar:
    """An axis: variable (or its name), range, kind (`"DataPar"`, `"CommReduce"`, `"ThreadIndex"`, ...), thread tag."""
    if isinstance(iter_type, str):
        if iter_type not in IterVar.KIND_NAMES:
            raise ValueError(f"unknown kind of axis {iter_type!r}; choose from {', '.join(IterVar.KIND_NAMES)}")
        iter_type = IterVar.KIND_NAMES.index(iter_type)
    if iter_type == IterVar.ThreadIndex and thread_tag:
        require_thread(thread_tag)
    domain = dom if dom is None or isinstance(dom, Range) else Range(*dom)
    if isinstance(v, str):
        v = Var(v, "int32" if domain is None else domain.extent.dtype)
    return IterVar(domain, v, iter_type, thread_tag)


__all__ = [
    "all", "any", "cast", "Cast", "reinterpret", "type_annotation", "if_then_else", "Select", "likely", "assume",
    "undef", "ret", "ignore_loop_partition", "Let", "comm_reducer", "reduce", "iter_var",
]  # fmt: skip
