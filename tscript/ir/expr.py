"""Expressions. Reading this file is reading the expression half of the IR.

All but variables are interned: two expressions of the same form are the same object, so `is` compares
form. `a == b` builds an `EQ` node, as lambdas of tensor expressions need; its truth value is sameness
of form. Constructors check types and nothing else; folding lives in `construct`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from tscript.ir.base import Node, converted, derived, float_key
from tscript.ir.dtype import BOOL, HANDLE, INT32, VOID, DataType, int_range
from tscript.ir.operators import Arithmetic, Operators, operate
from tscript.support.wording import require_kind, shown_int, with_article

if TYPE_CHECKING:
    from tscript.ir.buffer import Buffer

type_ = type


class Type(Node):
    """Static type of a variable or of what a function returns."""


class PrimType(Type, interned=True):
    """A scalar or vector value."""

    dtype: DataType = converted(converter=DataType)

    @staticmethod
    def _coerce(dtype: str) -> tuple[DataType]:
        return (DataType(dtype),)


class PointerType(Type, interned=True):
    """The address of elements in a storage scope."""

    element_type: Type
    storage_scope: str = "global"

    def _check(self) -> None:
        require_kind(self.storage_scope, str, 'a storage scope is a text such as "shared"')


class TupleType(Type, interned=True):
    """A tuple of types; the empty one is the type of a function that returns nothing."""

    fields: tuple[Type, ...] = ()


class PrimExpr(Arithmetic, Node):
    """An expression with a scalar or vector value of type `dtype`."""

    dtype: DataType = derived()

    def __eq__(self, other: object) -> Any:
        return operate("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return operate("not_equal", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise ValueError(
            f"the value of `{self}` is known only when the program runs, so Python cannot branch on it; "
            "use T.if_then_else, T.And / T.Or / T.Not, or an `if` statement in a prim_func"
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"`{self}` is a scalar expression and cannot be iterated over")

    def equal(self, other: ExprLike) -> PrimExpr:
        """The expression `self == other`."""
        return operate("equal", self, other)

    def astype(self, dtype: str) -> PrimExpr:
        """This value converted to `dtype`."""
        return operate("cast", self, dtype)


ExprLike = PrimExpr | int | float | bool
"""What expression-taking functions accept: Python numbers become constants."""


class IntImm(PrimExpr, interned=True):
    """An integer or bool constant; the value lies in the range of its type."""

    dtype: DataType = converted(converter=DataType)
    value: int

    @staticmethod
    def _coerce(dtype: str, value: int) -> tuple[DataType, int]:
        # Not `int(value)`, which would cut off a fraction.
        return DataType(dtype), operator.index(value)

    def _check(self) -> None:
        if not (self.dtype.is_integer or self.dtype.is_bool) or self.dtype.lanes != 1:
            raise TypeError(f"an integer constant cannot have the type {self.dtype!s}")
        low, high = int_range(self.dtype)
        if not low <= self.value <= high:
            raise ValueError(f"{shown_int(self.value)} does not fit in {self.dtype!s}, which holds {low} to {high}")

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0


class FloatImm(PrimExpr, interned=True):
    """A floating-point constant. The value is kept as written; it is rounded to `dtype` where used."""

    dtype: DataType = converted(converter=DataType)
    value: float

    @staticmethod
    def _coerce(dtype: str, value: float) -> tuple[DataType, float]:
        # One NaN: its sign and payload mean nothing, and would make programs that print alike differ.
        number = float(value)
        return DataType(dtype), number if number == number else math.nan

    @staticmethod
    def _key(dtype: DataType, value: float) -> tuple[DataType, bytes]:
        return dtype, float_key(value)

    def _check(self) -> None:
        if not self.dtype.is_float or self.dtype.lanes != 1:
            raise TypeError(f"a float constant cannot have the type {self.dtype!s}")

    def __float__(self) -> float:
        return self.value


class StringImm(PrimExpr, interned=True):
    """A text constant, an argument of intrinsics."""

    value: str

    def _derive_dtype(self) -> DataType:
        return HANDLE

    def _check(self) -> None:
        require_kind(self.value, str, "a text constant holds a text")


class Var(PrimExpr):
    """A variable. Two variables are the same only if they are the same object.

    `dtype` may be the text of a type or a `Type` (pointers).
    """

    name: str
    type_annotation: Type

    def __init__(self, name: str, dtype: str | Type = "int32") -> None:
        require_kind(name, str, "the name of a variable is a text")
        annotation = dtype if isinstance(dtype, Type) else PrimType(DataType(dtype))
        put = object.__setattr__
        put(self, "name", name)
        put(self, "type_annotation", annotation)
        put(self, "dtype", annotation.dtype if isinstance(annotation, PrimType) else HANDLE)

    @property
    def name_hint(self) -> str:
        """Same as `name`."""
        return self.name

    def copy_with(self, *, name: str | None = None, dtype: str | Type | None = None) -> Var:
        """A new variable of the same kind."""
        return type(self)(self.name if name is None else name, self.type_annotation if dtype is None else dtype)


class SizeVar(Var):
    """A variable known to be at least zero, such as a symbolic extent."""

    if TYPE_CHECKING:
        # A checker would derive another constructor from the fields, as it does for all nodes.
        def __init__(self, name: str, dtype: str | Type = "int32") -> None: ...


class Cast(PrimExpr, interned=True):
    """Conversion of a value to `dtype`."""

    dtype: DataType = converted(converter=DataType)
    value: PrimExpr

    @staticmethod
    def _coerce(dtype: str, value: PrimExpr) -> tuple[DataType, PrimExpr]:
        return DataType(dtype), value

    def _check(self) -> None:
        if self.dtype.lanes != self.value.dtype.lanes:
            raise TypeError(f"cannot cast {self.value.dtype!s} to {self.dtype!s}: the lanes differ")


class BinaryExpr(PrimExpr):
    """Two operands of one type."""

    a: PrimExpr
    b: PrimExpr

    def _check(self) -> None:
        if self.a.dtype is not self.b.dtype:
            raise TypeError(
                f"{type(self).__name__} takes operands of one type, not {self.a.dtype!s} and {self.b.dtype!s}"
            )


class ArithExpr(BinaryExpr):
    """Operation whose result has the operands' type."""

    def _derive_dtype(self) -> DataType:
        return self.a.dtype

    def _check(self) -> None:
        super()._check()
        if not (self.a.dtype.is_float or self.a.dtype.is_integer or self.a.dtype.is_bool):
            raise TypeError(f"{type(self).__name__} takes numbers, not {self.a.dtype!s}")


class CmpExpr(BinaryExpr):
    """Comparison: a bool for each lane."""

    def _derive_dtype(self) -> DataType:
        return BOOL.with_lanes(self.a.dtype.lanes)

    def _check(self) -> None:
        super()._check()
        if self.a.dtype.is_handle and not isinstance(self, (EQ, NE)):
            raise TypeError(f"{type(self).__name__} takes numbers; pointers are equal or not, and have no order")
        if isinstance(self.a, StringImm) or isinstance(self.b, StringImm):
            raise TypeError("a text cannot be compared when the program runs")


class LogicExpr(BinaryExpr):
    """Operation on bools."""

    def _derive_dtype(self) -> DataType:
        return self.a.dtype

    def _check(self) -> None:
        super()._check()
        if not self.a.dtype.is_bool:
            raise TypeError(f"{type(self).__name__} takes bools, not {self.a.dtype!s}")


class Add(ArithExpr, interned=True):
    """Sum; integers wrap."""

    a: PrimExpr
    b: PrimExpr


class Sub(ArithExpr, interned=True):
    """Difference; integers wrap."""

    a: PrimExpr
    b: PrimExpr


class Mul(ArithExpr, interned=True):
    """Product; integers wrap."""

    a: PrimExpr
    b: PrimExpr


class Div(ArithExpr, interned=True):
    """Quotient: true division of floats, rounding toward zero for integers."""

    a: PrimExpr
    b: PrimExpr


class Mod(ArithExpr, interned=True):
    """Remainder of `Div` on integers: it has the sign of the dividend."""

    a: PrimExpr
    b: PrimExpr


class FloorDiv(ArithExpr, interned=True):
    """Quotient rounded toward minus infinity, as Python's `//`."""

    a: PrimExpr
    b: PrimExpr


class FloorMod(ArithExpr, interned=True):
    """Remainder of `FloorDiv`: it has the sign of the divisor, as Python's `%`."""

    a: PrimExpr
    b: PrimExpr


class Min(ArithExpr, interned=True):
    """Smaller operand; NaN if either is NaN."""

    a: PrimExpr
    b: PrimExpr


class Max(ArithExpr, interned=True):
    """Larger operand; NaN if either is NaN."""

    a: PrimExpr
    b: PrimExpr


class EQ(CmpExpr, interned=True):
    """Equality. As a Python condition: whether both sides are the same expression."""

    a: PrimExpr
    b: PrimExpr

    def __bool__(self) -> bool:
        return self.a is self.b


class NE(CmpExpr, interned=True):
    """Inequality. As a Python condition: whether the sides are different expressions."""

    a: PrimExpr
    b: PrimExpr

    def __bool__(self) -> bool:
        return self.a is not self.b


class LT(CmpExpr, interned=True):
    """Less than."""

    a: PrimExpr
    b: PrimExpr


class LE(CmpExpr, interned=True):
    """Less than or equal."""

    a: PrimExpr
    b: PrimExpr


class GT(CmpExpr, interned=True):
    """Greater than."""

    a: PrimExpr
    b: PrimExpr


class GE(CmpExpr, interned=True):
    """Greater than or equal."""

    a: PrimExpr
    b: PrimExpr


class And(LogicExpr, interned=True):
    """Both; each side is evaluated."""

    a: PrimExpr
    b: PrimExpr


class Or(LogicExpr, interned=True):
    """Either; each side is evaluated."""

    a: PrimExpr
    b: PrimExpr


class Not(PrimExpr, interned=True):
    """Negation of a bool."""

    a: PrimExpr

    def _derive_dtype(self) -> DataType:
        return self.a.dtype

    def _check(self) -> None:
        if not self.a.dtype.is_bool:
            raise TypeError(f"Not takes a bool, not {self.a.dtype!s}")


class Select(PrimExpr, interned=True):
    """Choice of a value; both are evaluated (`if_then_else` evaluates one)."""

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr

    def _derive_dtype(self) -> DataType:
        return self.true_value.dtype

    def _check(self) -> None:
        if not self.condition.dtype.is_bool:
            raise TypeError(f"the condition of Select is a bool, not {self.condition.dtype!s}")
        if self.true_value.dtype is not self.false_value.dtype:
            raise TypeError(f"the branches of Select differ: {self.true_value.dtype!s} and {self.false_value.dtype!s}")
        if self.condition.dtype.lanes not in (1, self.dtype.lanes):
            raise TypeError("the condition of Select has another number of lanes than its branches")


class BufferLoad(PrimExpr, interned=True):
    """An element of a buffer, or a vector of elements when the last index is a vector."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None

    def _derive_dtype(self) -> DataType:
        dtype: DataType = self.buffer.dtype
        lanes = self.indices[-1].dtype.lanes if self.indices else 1
        return dtype.with_lanes(dtype.lanes * lanes)

    def _check(self) -> None:
        check_indices(self.buffer, self.indices)


def check_indices(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
    """Raise ValueError for a wrong number of subscripts, TypeError for subscripts that are no integers."""
    if len(indices) != len(buffer.shape):
        raise ValueError(f"{buffer.name} has {len(buffer.shape)} dimensions, but {len(indices)} subscripts were given")
    for i, index in enumerate(indices):
        if not index.dtype.is_integer:
            raise TypeError(f"subscript {i} of {buffer.name} is {index.dtype!s}; {integers_wanted(index.dtype)}")
        if index.dtype.lanes != 1 and i != len(indices) - 1:
            raise TypeError(f"subscript {i} of {buffer.name} is a vector; only the last one may be")


def integers_wanted(given: DataType) -> str:
    """What subscripts are, and how to make one of a bool."""
    return "subscripts are integers" + ('; T.Cast("int32", x) makes one of a bool' if given.is_bool else "")


class ProducerLoad(PrimExpr, interned=True):
    """An element of something that is not yet a buffer (a tensor expression)."""

    producer: Any
    indices: tuple[PrimExpr, ...]

    def _derive_dtype(self) -> DataType:
        return DataType(self.producer.dtype)


class Ramp(PrimExpr, interned=True):
    """The vector base, base + stride, ... of `lanes` lanes."""

    base: PrimExpr
    stride: PrimExpr
    lanes: int

    @staticmethod
    def _coerce(base: PrimExpr, stride: PrimExpr, lanes: int) -> tuple[PrimExpr, PrimExpr, int]:
        return base, stride, operator.index(lanes)

    def _derive_dtype(self) -> DataType:
        return self.base.dtype.with_lanes(self.lanes * self.base.dtype.lanes)

    def _check(self) -> None:
        if self.lanes < 2:
            raise ValueError(f"a ramp has at least two lanes, not {self.lanes}")
        if self.base.dtype is not self.stride.dtype:
            raise TypeError(f"base ({self.base.dtype!s}) and stride ({self.stride.dtype!s}) of a ramp differ in type")


class Broadcast(PrimExpr, interned=True):
    """A scalar repeated in `lanes` lanes."""

    value: PrimExpr
    lanes: int

    @staticmethod
    def _coerce(value: PrimExpr, lanes: int) -> tuple[PrimExpr, int]:
        return value, operator.index(lanes)

    def _derive_dtype(self) -> DataType:
        return self.value.dtype.with_lanes(self.lanes * self.value.dtype.lanes)

    def _check(self) -> None:
        if self.lanes < 2:
            raise ValueError(f"a broadcast has at least two lanes, not {self.lanes}")


class Shuffle(PrimExpr, interned=True):
    """Lanes picked, by constant `indices`, from the concatenation of `vectors`."""

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]

    def _derive_dtype(self) -> DataType:
        return self.vectors[0].dtype.element.with_lanes(len(self.indices))

    def _check(self) -> None:
        if not self.vectors or not self.indices:
            raise ValueError("a shuffle needs at least one vector and one index")
        element = self.vectors[0].dtype.element
        if element.is_handle:
            raise TypeError("a shuffle picks lanes of vectors of numbers, not of pointers or texts")
        for v in self.vectors:
            if v.dtype.element is not element:
                raise TypeError(f"a shuffle mixes {element!s} and {v.dtype.element!s}")
        total = sum(v.dtype.lanes for v in self.vectors)
        for i in self.indices:
            if not isinstance(i, IntImm) or not 0 <= i.value < total:
                raise ValueError(f"shuffle index {i} is not a constant between 0 and {total - 1}")


class Let(PrimExpr, interned=True):
    """`body` with `var` bound to `value`."""

    var: Var
    value: PrimExpr
    body: PrimExpr

    def _derive_dtype(self) -> DataType:
        return self.body.dtype

    def _check(self) -> None:
        if self.var.dtype is not self.value.dtype:
            raise TypeError(f"Let binds {self.var.name} ({self.var.dtype!s}) to {with_article(self.value.dtype)}")


class GlobalVar(Node):
    """The name of a function in a module. Same only if the same object."""

    name_hint: str


class Op(Node):
    """An intrinsic. One object for each name; obtained by `Op.get`.

    `effect` tells what a call may do: "pure" (only its value), "read" (reads memory), "update"
    (writes memory or has other effects), "control" (changes what runs).
    """

    name: str
    num_inputs: int
    effect: str
    registry: ClassVar[dict[str, Op]] = {}

    @staticmethod
    def get(name: str) -> Op:
        """The operator called `name` (`"tir.exp"`); KeyError if there is none."""
        return Op.registry[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return Op.get, (self.name,)


class Call(PrimExpr, interned=True):
    """A call of an intrinsic or of another function of the module."""

    dtype: DataType = converted(converter=DataType)
    op: Op | GlobalVar
    args: tuple[Any, ...]

    @staticmethod
    def _coerce(dtype: str, op: Op | GlobalVar | str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        # Plain numbers would make 1, True and 1.0 the same call.
        made = tuple(a if isinstance(a, Node) else operate("convert", a) for a in args)
        return DataType(dtype), Op.get(op) if isinstance(op, str) else op, made


class Range(Node):
    """The integers from `min` to `min + extent`, the end excluded.

    `Range(a, b)` of the public API is `Range.from_bounds`.
    """

    min: PrimExpr
    extent: PrimExpr

    def __init__(self, begin: ExprLike, end: ExprLike | None = None) -> None:
        low, extent = operate("range", begin, end)
        put = object.__setattr__
        put(self, "min", low)
        put(self, "extent", extent)

    @staticmethod
    def from_min_extent(min_value: ExprLike, extent: ExprLike) -> Range:
        """The range that starts at `min_value` and has `extent` values."""
        self = object.__new__(Range)
        put = object.__setattr__
        put(self, "min", min_value if isinstance(min_value, PrimExpr) else operate("convert", min_value))
        put(self, "extent", extent if isinstance(extent, PrimExpr) else operate("convert", extent))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Range.from_min_extent, (self.min, self.extent)

    def replace(self, **changes: Any) -> Range:
        """A copy with `min` or `extent` changed."""
        if all(getattr(self, k) is v for k, v in changes.items()):
            return self
        return Range.from_min_extent(changes.get("min", self.min), changes.get("extent", self.extent))


class IterVar(Arithmetic, Node):
    """A block axis, reduction axis or hardware thread index: a variable with a domain and a kind.

    Kinds: `DataPar` (spatial), `CommReduce` (reduce), `Ordered` (scan), `Opaque`, `ThreadIndex`.
    """

    dom: Range | None
    var: Var
    iter_type: int
    thread_tag: str = ""

    def _check(self) -> None:
        require_kind(self.dom, (Range, type_(None)), "the domain of an axis is a Range or None")
        require_kind(self.var, Var, "the variable of an axis is a Var")
        require_kind(self.iter_type, int, "the kind of an axis is a number such as IterVar.DataPar")
        require_kind(self.thread_tag, str, "the thread of an axis is named by a text")

    DataPar: ClassVar[int] = 0
    ThreadIndex: ClassVar[int] = 1
    CommReduce: ClassVar[int] = 2
    Ordered: ClassVar[int] = 3
    Opaque: ClassVar[int] = 4
    Unrolled: ClassVar[int] = 5
    Vectorized: ClassVar[int] = 6
    Parallelized: ClassVar[int] = 7
    Tensorized: ClassVar[int] = 8

    KIND_NAMES: ClassVar[tuple[str, ...]] = (
        "DataPar",
        "ThreadIndex",
        "CommReduce",
        "Ordered",
        "Opaque",
        "Unrolled",
        "Vectorized",
        "Parallelized",
        "Tensorized",
    )

    @property
    def dtype(self) -> DataType:
        """Type of the variable."""
        return self.var.dtype


class CommReducer(Node):
    """An associative, commutative combination of tuples: `result` in terms of `lhs` and `rhs`."""

    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]


class Reduce(PrimExpr):
    """A reduction of `source` over `axis`; only inside tensor expressions."""

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    init: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int

    def _derive_dtype(self) -> DataType:
        return self.source[self.value_index].dtype


BINARY_CLASSES: tuple[type_[BinaryExpr], ...] = (
    Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or,
)  # fmt: skip

__all__ = [
    "BINARY_CLASSES", "EQ", "GE", "GT", "INT32", "LE", "LT", "NE", "VOID", "Add", "And", "ArithExpr", "BinaryExpr",
    "Broadcast", "BufferLoad", "Call", "Cast", "CmpExpr", "CommReducer", "Div", "ExprLike", "FloatImm", "FloorDiv",
    "FloorMod", "GlobalVar", "IntImm", "IterVar", "Let", "LogicExpr", "Max", "Min", "Mod", "Mul", "Not", "Op",
    "Operators", "Or", "PointerType", "PrimExpr", "PrimType", "ProducerLoad", "Ramp", "Range", "Reduce", "Select",
    "Shuffle", "SizeVar", "StringImm", "Sub", "TupleType", "Type", "Var", "check_indices",
]  # fmt: skip
