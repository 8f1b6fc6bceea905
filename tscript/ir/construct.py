"""Constructors that convert, promote and fold: what Python's operators and the functions of `T` build with.

Folding follows `semantics` and happens in the operand's type. Beyond constants only identities that
hold for every value are used, so nothing here can change a result, NaN and -0.0 included. One exception: zero
times an integer converted to float folds to that zero, whatever the sign of the integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir.base import Node, register_converter
from tscript.ir.convert import (
    Number,
    cast,
    const,
    convert,
    convert_attr,
    is_const_int,
    is_value_object,
    match_lanes,
    promote,
    rounded,
)  # fmt: skip
from tscript.ir.dtype import BOOL, INT32, int_range
from tscript.ir.expr import Broadcast, Call, Cast, ExprLike, FloatImm, IntImm, Op, Operators, PrimExpr
from tscript.ir.linear import difference, from_linear
from tscript.ir.ops import FLOAT_ONLY

# -- arithmetic -----------------------------------------------------------------------------------


def _fold(node: type[ex.ArithExpr], x: PrimExpr, y: PrimExpr) -> PrimExpr | None:
    """The constant result of two constants. Floats below 32 bits are left to run time."""
    if isinstance(x, IntImm) and isinstance(y, IntImm):
        return IntImm(x.dtype, int(semantics.arith(node.__name__, x.dtype, x.value, y.value)))
    if isinstance(x, FloatImm) and isinstance(y, FloatImm) and x.dtype.bits >= 32:
        return FloatImm(x.dtype, float(semantics.arith(node.__name__, x.dtype, rounded(x), rounded(y))))
    return None


def _folded(node: type[ex.ArithExpr], x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """The constant result of two constants, else the node."""
    constant = _fold(node, x, y)
    # Not `or`: a constant 0 is false.
    return node(x, y) if constant is None else constant


def _arith_operands(what: str, a: ExprLike, b: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    x, y = promote(a, b)
    if x.dtype.is_bool:
        # As in Python, bools count as integers; the sum of two bools would not fit in one.
        x, y = cast(x, INT32.with_lanes(x.dtype.lanes)), cast(y, INT32.with_lanes(y.dtype.lanes))
    if not (x.dtype.is_float or x.dtype.is_integer):
        raise TypeError(f"{what} takes numbers, not {x.dtype!s}")
    return x, y


def add(a: ExprLike, b: ExprLike) -> PrimExpr:
    """`a + b`, promoted and folded."""
    x, y = _arith_operands("+", a, b)
    if is_const_int(x, 0):
        return y
    if is_const_int(y, 0):
        return x
    return _folded(ex.Add, x, y)


def sub(a: ExprLike, b: ExprLike) -> PrimExpr:
    """`a - b`, promoted and folded."""
    x, y = _arith_operands("-", a, b)
    if is_const_int(y, 0):
        return x
    return _folded(ex.Sub, x, y)


def _is_one(e: PrimExpr) -> bool:
    return isinstance(e, (IntImm, FloatImm)) and e.value == 1


def _is_zero(e: PrimExpr) -> bool:
    return isinstance(e, (IntImm, FloatImm)) and e.value == 0


def _is_finite(e: PrimExpr) -> bool:
    """Whether no value of `e` is infinite or NaN, as its form shows."""
    return not e.dtype.is_float or (isinstance(e, Cast) and not e.value.dtype.is_float and e.dtype.bits >= 32)


def mul(a: ExprLike, b: ExprLike) -> PrimExpr:
    """`a * b`, promoted and folded."""
    x, y = _arith_operands("*", a, b)
    folded = _fold(ex.Mul, x, y)
    if folded is not None:
        return folded
    if _is_one(x):
        return y
    if _is_one(y):
        return x
    if _is_zero(x) and _is_finite(y):
        return x
    if _is_zero(y) and _is_finite(x):
        return y
    return ex.Mul(x, y)


def _check_divisor(y: PrimExpr) -> None:
    if is_const_int(y, 0) or (isinstance(y, Broadcast) and is_const_int(y.value, 0)):
        raise ZeroDivisionError("division by the constant zero")


def div(a: ExprLike, b: ExprLike) -> PrimExpr:
    """`a / b` of floats. Two integers raise TypeError, since the rounding would be a guess."""
    x, y = promote(a, b)
    if not x.dtype.is_float:
        raise TypeError(
            "the quotient of two integers could be rounded either way: "
            "use `//` (T.floordiv) to round down or T.truncdiv to round toward zero"
        )
    if isinstance(y, FloatImm) and y.value == 1:
        return x
    return _folded(ex.Div, x, y)


def _int_division(node: type[ex.ArithExpr], a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = _arith_operands("division", a, b)
    remainder = node in (ex.Mod, ex.FloorMod)
    if x.dtype.is_float:
        if node is ex.Div:
            raise TypeError("T.truncdiv takes integers; use `/` for floats")
        if not remainder and isinstance(y, FloatImm) and y.value == 0:
            return node(x, y)
        return _folded(node, x, y)
    _check_divisor(y)
    folded = _fold(node, x, y)
    if folded is not None:
        return folded
    if is_const_int(x, 0):
        return x
    if is_const_int(y, 1):
        return IntImm(x.dtype, 0) if remainder else x
    return node(x, y)


def truncdiv(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Integer quotient rounded toward zero, as in C. Raises ZeroDivisionError for a constant 0."""
    return _int_division(ex.Div, a, b)


def truncmod(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Remainder of `truncdiv`: it has the sign of `a`."""
    return _int_division(ex.Mod, a, b)


def floordiv(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Quotient rounded down, as Python's `//`. Raises ZeroDivisionError for a constant 0."""
    return _int_division(ex.FloorDiv, a, b)


def floormod(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Remainder of `floordiv`, as Python's `%`: it has the sign of `b`."""
    return _int_division(ex.FloorMod, a, b)


def ceildiv(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Quotient of integers rounded up: `(a + b - 1) // b` where `b` is seen to be positive, else `-(-a // b)`.

    Unsigned integers take `a // b + (a % b != 0)`. Raises ZeroDivisionError for a constant 0.
    """
    x, y = _arith_operands("ceildiv", a, b)
    if x.dtype.is_float:
        raise TypeError("T.ceildiv takes integers; use T.ceil(a / b) for floats")
    _check_divisor(y)
    if isinstance(x, IntImm) and isinstance(y, IntImm):
        return IntImm(x.dtype, semantics.wrap(x.dtype, -(-x.value // y.value)))
    if y.dtype.is_uint:
        # Neither a + b - 1 nor -a would stay in the range.
        return add(floordiv(x, y), cast(compare(ex.NE, floormod(x, y), 0), x.dtype))
    if isinstance(y, ex.SizeVar) or (isinstance(y, IntImm) and y.value > 0):
        return floordiv(sub(add(x, y), 1), y)
    return sub(const(0, x.dtype), floordiv(sub(const(0, x.dtype), x), y))


def neg(a: ExprLike) -> PrimExpr:
    """`-a`, which is `a * -1`."""
    e = convert(a)
    if e.dtype.is_uint:
        return sub(const(0, e.dtype), e)
    if e.dtype.is_float:
        return mul(e, const(-1.0, e.dtype.element))
    return mul(e, const(-1, e.dtype.element) if e.dtype.is_int else -1)


def _ordered_operands(what: str, a: ExprLike, b: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    x, y = promote(a, b)
    if not (x.dtype.is_float or x.dtype.is_integer or x.dtype.is_bool):
        raise TypeError(f"{what} takes numbers, not {x.dtype!s}")
    return x, y


def min_(a: ExprLike, b: ExprLike) -> PrimExpr:
    """The smaller value; NaN if either is NaN."""
    x, y = _ordered_operands("min", a, b)
    return x if x is y else _folded(ex.Min, x, y)


def max_(a: ExprLike, b: ExprLike) -> PrimExpr:
    """The larger value; NaN if either is NaN."""
    x, y = _ordered_operands("max", a, b)
    return x if x is y else _folded(ex.Max, x, y)


def simple_sub(a: ExprLike, b: ExprLike) -> PrimExpr:
    """`a - b` with equal terms cancelled: the extent of a range given by its ends."""
    x, y = promote(a, b)
    if isinstance(x, ex.Add) and x.a is y:
        return x.b  # so that `lo:lo + n`, like `0:n` below, gives back `n` in the form it was written in
    if not x.dtype.is_int or is_const_int(y, 0):
        return sub(x, y)
    return from_linear(difference(x, y), x.dtype)


def int_div_exact(a: PrimExpr, by: int) -> PrimExpr:
    """`a // by` where the division is known to leave no rest."""
    return floordiv(a, by)


# -- comparison and logic -------------------------------------------------------------------------


def compare_operands(a: ExprLike, b: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    """Operands of a comparison: a Python number takes the other side's type; otherwise types promote."""
    if isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        b = _like(b, a)
    elif isinstance(b, PrimExpr) and not isinstance(a, PrimExpr):
        a = _like(a, b)
    return promote(a, b)


def _like(value: Any, other: PrimExpr) -> PrimExpr:
    dtype = other.dtype.element
    if isinstance(value, float) and not dtype.is_float:
        return const(value)
    if isinstance(value, (bool, int, float)) and (dtype.is_float or dtype.is_integer or dtype.is_bool):
        low, high = (0, 0) if dtype.is_float else int_range(dtype)
        return const(value, dtype) if dtype.is_float or low <= value <= high else const(value)
    return convert(value)


_OF_ONE_TYPE = [group.split() for group in (
    "a b", "true_value false_value", "base stride", "loop_var min extent", "var buffer value",
)]  # fmt: skip
_CONDITIONS = frozenset({"condition", "predicate"})


def _expressions(node: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a node that is made of expressions and plain numbers, the numbers as constants of fitting type.

    TypeError, naming the field, for what is no number.
    """
    found = dict(fields)
    kinds: dict[str, tuple[str, Any]] = node._field_info
    for name, value in fields.items():
        kind = kinds[name][0]
        if kind == "tuple[PrimExpr, ...]":
            found[name] = tuple(_expression(node, name, v, None) for v in value)
        elif kind == "PrimExpr" or (kind == "PrimExpr | None" and value is not None):
            others = next((group for group in _OF_ONE_TYPE if name in group), ())
            typed = [fields[o] for o in others if o != name and hasattr(fields.get(o), "dtype")]
            found[name] = _expression(node, name, value, typed[0] if typed else None)
    return found


def _expression(node: Any, name: str, value: Any, like: Any) -> PrimExpr:
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, (bool, int, float)):
        if name in _CONDITIONS or issubclass(node, (ex.LogicExpr, ex.Not)):
            return const(bool(value), "bool")
        return const(value) if like is None else _like(value, like)
    raise TypeError(f"the field {name!r} of {node.__name__} is an expression or a number, not {value!r}")


register_converter(_expressions)


def compare(node: type[ex.CmpExpr], a: ExprLike, b: ExprLike) -> PrimExpr:
    """The comparison `node`, folded for constants."""
    x, y = compare_operands(a, b)
    if isinstance(x, (IntImm, FloatImm)) and isinstance(y, (IntImm, FloatImm)):
        return IntImm(BOOL, int(semantics.COMPARE[node.__name__](rounded(x), rounded(y))))
    return node(x, y)


def _equality(node: type[ex.CmpExpr], a: ExprLike, b: Any) -> Any:
    if not isinstance(b, (PrimExpr, bool, int, float, np.generic)):
        return NotImplemented
    return compare(node, a, b)  # pyright: ignore[reportArgumentType]


def and_(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Both; folded where one side is constant."""
    x, y = match_lanes(_as_bool(a), _as_bool(b))
    if isinstance(x, IntImm):
        return y if x.value else x
    if isinstance(y, IntImm):
        return x if y.value else y
    return ex.And(x, y)


def or_(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Either; folded where one side is constant."""
    x, y = match_lanes(_as_bool(a), _as_bool(b))
    if isinstance(x, IntImm):
        return x if x.value else y
    if isinstance(y, IntImm):
        return y if y.value else x
    return ex.Or(x, y)


def not_(a: ExprLike) -> PrimExpr:
    """Negation; folded for a constant."""
    x = _as_bool(a)
    return IntImm(BOOL, 1 - x.value) if isinstance(x, IntImm) else ex.Not(x)


def _as_bool(a: ExprLike) -> PrimExpr:
    e = convert(a)
    if not e.dtype.is_bool:
        raise TypeError(f"a condition is a bool, not {e.dtype!s}; compare the value, as in `x != 0`")
    return e


# -- bits -----------------------------------------------------------------------------------------


def _bit_operands(what: str, a: ExprLike, b: ExprLike, bools: bool) -> tuple[PrimExpr, PrimExpr]:
    x, y = promote(a, b)
    if not (x.dtype.is_integer or (bools and x.dtype.is_bool)):
        raise TypeError(f"{what} takes integers, not {x.dtype!s}")
    return x, y


def _bitwise(name: str, a: ExprLike, b: ExprLike) -> PrimExpr:
    shift = name.startswith("shift")
    x, y = _bit_operands(name, a, b, bools=not shift)
    if isinstance(y, IntImm):
        if shift and not 0 <= y.value < x.dtype.bits:
            raise ValueError(f"a shift of {x.dtype!s} by {y.value}: the count lies between 0 and {x.dtype.bits - 1}")
        if isinstance(x, IntImm):
            return IntImm(x.dtype, semantics.bitwise(name, x.dtype, x.value, y.value))
        if shift and y.value == 0:
            return x
    return Call(x.dtype, Op.get("tir." + name), (x, y))


def bitwise_and(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Bits set in both."""
    return _bitwise("bitwise_and", a, b)


def bitwise_or(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Bits set in either."""
    return _bitwise("bitwise_or", a, b)


def bitwise_xor(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Bits set in one of the two."""
    return _bitwise("bitwise_xor", a, b)


def bitwise_not(a: ExprLike) -> PrimExpr:
    """All bits flipped."""
    x = convert(a)
    if not (x.dtype.is_integer or x.dtype.is_bool):
        raise TypeError(f"bitwise_not takes integers, not {x.dtype!s}")
    return Call(x.dtype, Op.get("tir.bitwise_not"), (x,))


def shift_left(a: ExprLike, b: ExprLike) -> PrimExpr:
    """`a` times 2**b, wrapped. A constant count beyond the width raises ValueError."""
    return _bitwise("shift_left", a, b)


def shift_right(a: ExprLike, b: ExprLike) -> PrimExpr:
    """`a` divided by 2**b, rounded down (so the sign of signed values stays)."""
    return _bitwise("shift_right", a, b)


# -- calls ----------------------------------------------------------------------------------------


def call_intrin(dtype: str, op: str | Op, *args: Any) -> Call:
    """A call of an intrinsic; arguments are converted. Raises TypeError for a wrong number of them."""
    target = Op.get(op if op.startswith("tir.") else "tir." + op) if isinstance(op, str) else op
    if target.num_inputs >= 0 and len(args) != target.num_inputs:
        raise TypeError(f"{target.name} takes {target.num_inputs} arguments, not {len(args)}")
    return Call(dtype, target, tuple(_call_arg(a) for a in args))


def _call_arg(a: Any) -> Any:
    return a if isinstance(a, Node) and not isinstance(a, ex.IterVar) else convert(a)


def math_call(name: str, *args: ExprLike) -> PrimExpr:
    """A math function: floats in, the same type out. Raises TypeError for integers."""
    values = [convert(a) for a in args]
    if len(values) == 2:
        values = list(promote(*args))
    op = Op.get("tir." + name)
    if op.name in FLOAT_ONLY and not values[0].dtype.is_float:
        raise TypeError(
            f'{name} takes floats, not {values[0].dtype!s}; convert the argument, as in T.{name}(T.Cast("float32", x))'
        )
    return Call(values[0].dtype, op, tuple(values))


def if_then_else(condition: ExprLike, then: ExprLike, otherwise: ExprLike) -> PrimExpr:
    """`then` where `condition` holds, else `otherwise`; only the chosen one is evaluated."""
    c = _as_bool(condition)
    if c.dtype.lanes != 1:
        raise TypeError(
            "if_then_else takes one condition, not a vector of them; use T.Select, which chooses lane by lane"
        )
    x, y = branch_operands(then, otherwise)
    if isinstance(c, IntImm):
        return x if c.value else y
    return Call(x.dtype, Op.get("tir.if_then_else"), (c, x, y))


def branch_operands(then: ExprLike, otherwise: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    """Both branches of a choice: a Python number takes the other branch's type; types do not promote."""
    if isinstance(then, PrimExpr) and not isinstance(otherwise, PrimExpr):
        otherwise = _like(otherwise, then)
    elif isinstance(otherwise, PrimExpr) and not isinstance(then, PrimExpr):
        then = _like(then, otherwise)
    x, y = match_lanes(convert(then), convert(otherwise))
    if x.dtype is not y.dtype:
        raise TypeError(f"the branches differ in type: {x.dtype!s} and {y.dtype!s}; cast one of them")
    return x, y


def _range(begin: ExprLike, end: ExprLike | None) -> tuple[PrimExpr, PrimExpr]:
    if end is None:
        extent = convert(begin)
        _require_integers("a range", extent)
        return const(0, extent.dtype), extent
    low, high = promote(begin, end)
    _require_integers("a range", low)
    return low, simple_sub(high, low)


def _require_integers(what: str, e: PrimExpr) -> None:
    if not e.dtype.is_integer:
        raise TypeError(f"{what} is made of integers, not {e.dtype!s}")


_TABLE: dict[str, Callable[..., Any]] = {
    "add": add, "sub": sub, "mul": mul, "div": div, "floordiv": floordiv, "floormod": floormod, "neg": neg,
    "shift_left": shift_left, "shift_right": shift_right, "bitwise_and": bitwise_and, "bitwise_or": bitwise_or,
    "bitwise_xor": bitwise_xor, "bitwise_not": bitwise_not,
    "lt": partial(compare, ex.LT), "le": partial(compare, ex.LE), "gt": partial(compare, ex.GT),
    "ge": partial(compare, ex.GE), "equal": partial(_equality, ex.EQ), "not_equal": partial(_equality, ex.NE),
    "cast": cast, "range": _range, "convert": convert,
}  # fmt: skip
Operators.table.update(_TABLE)

__all__ = [
    "Number", "add", "and_", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "branch_operands",
    "call_intrin", "cast", "ceildiv", "compare", "compare_operands", "const", "convert", "convert_attr", "div",
    "floordiv", "floormod", "if_then_else", "int_div_exact", "is_const_int", "is_value_object", "match_lanes",
    "math_call", "max_", "min_", "mul", "neg", "not_", "or_", "promote", "rounded", "shift_left", "shift_right",
    "simple_sub", "sub", "truncdiv", "truncmod",
]  # fmt: skip
