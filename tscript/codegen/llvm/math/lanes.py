"""A function of LLVM under construction whose values are vectors of any length, with Python's operators on them.

The math functions are written once, for float32 and float64, scalars and vectors: all lanes do the same operations in
the same order, so that a lane has the same bits whatever the width is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tscript.codegen.llvm.builder import Builder, quoted
from tscript.codegen.llvm.types import float_const, int_const

_SCALARS: Final = {"f32": "float", "f64": "double", "i1": "i1", "i32": "i32", "i64": "i64"}
_ORDERED: Final = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}
_SIGNED: Final = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}


@dataclass(frozen=True, eq=False, slots=True)
class Lane:
    """A value: the operand that holds it, and its kind, one of f32, f64, i1, i32, i64."""

    g: Lanes
    text: str
    kind: str

    def __add__(self, other: Lane | float) -> Lane:
        return self.g.op("add", self, other)

    def __radd__(self, other: float) -> Lane:
        return self.g.op("add", self, other)

    def __sub__(self, other: Lane | float) -> Lane:
        return self.g.op("sub", self, other)

    def __rsub__(self, other: float) -> Lane:
        return self.g.op("sub", self.g.like(self, other), self)

    def __mul__(self, other: Lane | float) -> Lane:
        return self.g.op("mul", self, other)

    def __rmul__(self, other: float) -> Lane:
        return self.g.op("mul", self, other)

    def __truediv__(self, other: Lane | float) -> Lane:
        return self.g.op("div", self, other)

    def __rtruediv__(self, other: float) -> Lane:
        return self.g.op("div", self.g.like(self, other), self)

    def __neg__(self) -> Lane:
        return Lane(self.g, self.g.let(f"fneg {self.type} {self.text}"), self.kind)

    def __and__(self, other: Lane | int) -> Lane:
        return self.g.op("and", self, other)

    def __or__(self, other: Lane | int) -> Lane:
        return self.g.op("or", self, other)

    def __xor__(self, other: Lane | int) -> Lane:
        return self.g.op("xor", self, other)

    def __lshift__(self, other: int) -> Lane:
        return self.g.op("shl", self, other)

    def __rshift__(self, other: int) -> Lane:
        return self.g.op("ashr", self, other)

    def __lt__(self, other: Lane | float) -> Lane:
        return self.g.compare("<", self, other)

    def __le__(self, other: Lane | float) -> Lane:
        return self.g.compare("<=", self, other)

    def __gt__(self, other: Lane | float) -> Lane:
        return self.g.compare(">", self, other)

    def __ge__(self, other: Lane | float) -> Lane:
        return self.g.compare(">=", self, other)

    def equals(self, other: Lane | float) -> Lane:
        """Whether both are the same number."""
        return self.g.compare("==", self, other)

    def differs(self, other: Lane | float) -> Lane:
        """Whether they are not the same number, as a NaN never is."""
        return self.g.compare("!=", self, other)

    @property
    def type(self) -> str:
        """The LLVM type."""
        return self.g.type_of(self.kind)


class Lanes:
    """The body of a function on values of `bits` bits in `lanes` lanes, for a CPU with `features`."""

    def __init__(self, b: Builder, bits: int, lanes: int) -> None:
        self.b = b
        self.bits = bits
        self.lanes = lanes
        self.fuses = "fma" in b.features
        # One instruction there; its results are those of the products that stand in for it elsewhere.
        self.scales = "avx512f" in b.features
        self.lines: list[str] = []
        self.label = "entry"
        self._count = 0

    # -- text ------------------------------------------------------------------------------------

    def type_of(self, kind: str) -> str:
        """The LLVM type of values of a kind."""
        scalar = _SCALARS[kind]
        return scalar if self.lanes == 1 else f"<{self.lanes} x {scalar}>"

    def let(self, text: str) -> str:
        """Append an instruction; the name of its result."""
        self._count += 1
        self.lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def begin(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.label = label

    def call(self, kind: str, name: str, *args: Lane) -> Lane:
        """Call the function `llvm.<name>`, overloaded for the result and for the last argument if that differs."""
        kinds = [kind] + ([args[-1].kind] if args and args[-1].kind != kind else [])
        mangled = ".".join(k if self.lanes == 1 else f"v{self.lanes}{k}" for k in kinds)
        full = f"llvm.{name}.{mangled}"
        self.b.module.declare(full, f"{self.type_of(kind)} {{}}({', '.join(a.type for a in args)})")
        given = ", ".join(f"{a.type} {a.text}" for a in args)
        return Lane(self, self.let(f"call {self.type_of(kind)} @{quoted(full)}({given})"), kind)

    # -- constants and operators -----------------------------------------------------------------

    def const(self, kind: str, value: float) -> Lane:
        """A constant in all lanes."""
        if kind[0] == "f":
            return Lane(self, float_const(_rounded(kind, value), int(kind[1:]), self.lanes), kind)
        return Lane(self, int_const(int(kind[1:]), int(value), self.lanes), kind)

    def like(self, x: Lane, value: Lane | float) -> Lane:
        """`value` as a value of the kind of `x`."""
        return value if isinstance(value, Lane) else self.const(x.kind, value)

    def op(self, name: str, x: Lane, y: Lane | float) -> Lane:
        """An arithmetic instruction."""
        prefix = "f" if x.kind[0] == "f" else ""
        return Lane(self, self.let(f"{prefix}{name} {x.type} {x.text}, {self.like(x, y).text}"), x.kind)

    def compare(self, symbol: str, x: Lane, y: Lane | float) -> Lane:
        """A comparison."""
        test = f"fcmp {_ORDERED[symbol]}" if x.kind[0] == "f" else f"icmp {_SIGNED[symbol]}"
        return Lane(self, self.let(f"{test} {x.type} {x.text}, {self.like(x, y).text}"), "i1")

    def below(self, x: Lane, limit: int) -> Lane:
        """Whether an integer, taken as unsigned, is below a limit."""
        return Lane(self, self.let(f"icmp ult {x.type} {x.text}, {self.like(x, limit).text}"), "i1")

    def unordered(self, x: Lane, y: Lane) -> Lane:
        """Whether one of them is NaN."""
        return Lane(self, self.let(f"fcmp uno {x.type} {x.text}, {y.text}"), "i1")

    def select(self, condition: Lane, x: Lane | float, y: Lane | float) -> Lane:
        """`x` where the condition holds, `y` elsewhere; one of them may be a number."""
        x = x if isinstance(x, Lane) else self.like(y, x) if isinstance(y, Lane) else self.const(f"f{self.bits}", x)
        y = self.like(x, y)
        text = f"select {condition.type} {condition.text}, {x.type} {x.text}, {y.type} {y.text}"
        return Lane(self, self.let(text), x.kind)

    def at_most(self, x: Lane, limit: float) -> Lane:
        """The smaller of both; a NaN stays."""
        return self.select(x > limit, limit, x)

    def at_least(self, x: Lane, limit: float) -> Lane:
        """The larger of both; a NaN stays."""
        return self.select(x < limit, limit, x)

    def abs(self, x: Lane) -> Lane:
        """Without its sign."""
        return self.call(x.kind, "fabs", x)

    def with_sign(self, x: Lane, sign: Lane) -> Lane:
        """`x` with the sign of `sign`."""
        return self.call(x.kind, "copysign", x, sign)

    def sqrt(self, x: Lane) -> Lane:
        """The square root."""
        return self.call(x.kind, "sqrt", x)

    # -- products --------------------------------------------------------------------------------

    def fma(self, x: Lane, y: Lane | float, z: Lane | float) -> Lane:
        """`x * y + z`, rounded once where the CPU does that."""
        if self.fuses:
            return self.call(x.kind, "fma", x, self.like(x, y), self.like(x, z))
        return x * y + z

    def minus_product(self, z: Lane, x: Lane, y: Lane | float) -> Lane:
        """`z - x * y`, rounded once at most where that is near zero, on any CPU."""
        if self.fuses:
            return self.call(x.kind, "fma", -x, self.like(x, y), z)
        high, low = self.product(x, self.like(x, y))
        return (z - high) - low

    def precise(self, x: Lane, y: float, z: Lane) -> Lane:
        """`x * y + z`, as if rounded once, or nearly so, on any CPU; `z` is the smaller part."""
        if self.fuses:
            return self.fma(x, y, z)
        high, low = self.product(x, y)
        return high + (low + z)

    def product(self, x: Lane, y: Lane | float) -> tuple[Lane, Lane]:
        """`x * y` exactly, as the rounded product and what it lacks."""
        y = self.like(x, y)
        high = x * y
        if self.fuses:
            return high, self.call(x.kind, "fma", x, y, -high)
        # T. J. Dekker, "A floating-point technique for extending the available precision" (1971).
        (a, b), (c, d) = self._split(x), self._split(y)
        return high, b * d - (((high - a * c) - b * c) - a * d)

    def _split(self, x: Lane) -> tuple[Lane, Lane]:
        scaled = x * (2.0**27 + 1 if x.kind == "f64" else 2.0**12 + 1)
        high = scaled - (scaled - x)
        return high, x - high

    def polynomial(self, coefficients: Sequence[float], x: Lane) -> Lane:
        """The polynomial with these coefficients, the constant first."""
        total = self.const(x.kind, coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.fma(total, x, c)
        return total

    # -- conversion ------------------------------------------------------------------------------

    def cast(self, instruction: str, x: Lane, kind: str) -> Lane:
        """`x` as another kind, by one of LLVM's conversions."""
        return Lane(self, self.let(f"{instruction} {x.type} {x.text} to {self.type_of(kind)}"), kind)

    def bits_of(self, x: Lane) -> Lane:
        """The bits of a float as an integer."""
        return self.cast("bitcast", x, "i" + x.kind[1:])

    def from_bits(self, x: Lane) -> Lane:
        """The float with these bits."""
        return self.cast("bitcast", x, "f" + x.kind[1:])

    def small_integer(self, n: Lane) -> Lane:
        """An integer below 2**22 (2**51 in float64) as a float: what `nearest` does, backwards."""
        kind, magic = ("f32", 1.5 * 2.0**23) if n.kind == "i32" else ("f64", 1.5 * 2.0**52)
        return self.from_bits(n + self.bits_of(self.const(kind, magic))) - magic

    def scaled(self, x: Lane, n: Lane) -> Lane:
        """`x` times two to the power of the integer `n`, rounded once; |n| is below 2100 (280 in float32)."""
        if self.scales:
            return self.call(x.kind, "ldexp", x, n if n.kind == "i32" else self.cast("trunc", n, "i32"))
        # The first product is exact, as x is near 1. Each factor is a normal number.
        half = n >> 1
        return (x * self.power_of_two(half)) * self.power_of_two(n - half)

    def power_of_two(self, n: Lane) -> Lane:
        """Two to the power of an integer, for normal numbers."""
        mantissa, bias = (23, 127) if n.kind == "i32" else (52, 1023)
        return self.from_bits((n + bias) << mantissa)

    def nearest(self, x: Lane, factor: float) -> tuple[Lane, Lane]:
        """The integer nearest to `x * factor`, as a float and as an integer; it is below 2**22 (2**51 in float64)."""
        magic = 1.5 * 2.0 ** (23 if x.kind == "f32" else 52)
        # Adding this leaves no bits for a fraction, and the integer in the lowest bits.
        shifted = self.fma(x, factor, magic)
        raw = self.bits_of(shifted)
        return shifted - magic, raw - self.bits_of(self.const(x.kind, magic))

    # -- rare cases ------------------------------------------------------------------------------

    def where_any(self, condition: Lane, common: Callable[[], Lane], rare: Callable[[], Lane]) -> Lane:
        """What `common` gives if the condition holds in no lane, otherwise what `rare` gives."""
        found = condition.text
        if self.lanes > 1:
            name = f"llvm.vector.reduce.or.v{self.lanes}i1"
            self.b.module.declare(name, f"i1 {{}}({condition.type})")
            found = self.let(f"call i1 @{quoted(name)}({condition.type} {found})")
        at = self._count
        self.lines.append(f"  br i1 {found}, label %rare{at}, label %common{at}, !prof !1")
        results: list[tuple[Lane, str]] = []
        for label, emit in ((f"common{at}", common), (f"rare{at}", rare)):
            self.begin(label)
            result = emit()
            results.append((result, self.label))
            self.lines.append(f"  br label %joined{at}")
        self.begin(f"joined{at}")
        sources = ", ".join(f"[ {v.text}, %{label} ]" for v, label in results)
        one = results[0][0]
        return Lane(self, self.let(f"phi {one.type} {sources}"), one.kind)

    def lane_by_lane(self, x: Lane, function: str) -> Lane:
        """The scalar function `function` of each lane, in a loop."""
        scalar = _SCALARS[x.kind]
        if self.lanes == 1:
            return Lane(self, self.let(f"call {scalar} @{function}({scalar} {x.text})"), x.kind)
        before, i, after = self.label, f"%lane{self._count}", f"%next{self._count}"
        loop, end = f"loop{self._count}", f"done{self._count}"
        given, made = f"%given{self._count}", f"%made{self._count}"
        self.lines.append(f"  br label %{loop}")
        self.begin(loop)
        self.lines.append(f"  {i} = phi i64 [ 0, %{before} ], [ {after}, %{loop} ]")
        self.lines.append(f"  {given} = phi {x.type} [ {x.text}, %{before} ], [ {made}, %{loop} ]")
        one = self.let(f"extractelement {x.type} {given}, i64 {i}")
        result = self.let(f"call {scalar} @{function}({scalar} {one})")
        self.lines.append(f"  {made} = insertelement {x.type} {given}, {scalar} {result}, i64 {i}")
        self.lines.append(f"  {after} = add i64 {i}, 1")
        more = self.let(f"icmp ne i64 {after}, {self.lanes}")
        self.lines.append(f"  br i1 {more}, label %{loop}, label %{end}, !prof !0")
        self.begin(end)
        return Lane(self, made, x.kind)


def _rounded(kind: str, value: float) -> float:
    return value if kind == "f64" else struct.unpack("<f", struct.pack("<f", value))[0]
