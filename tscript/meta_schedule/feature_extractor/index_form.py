"""Subscripts as sums of multiples of loops, with the range that they take under some of the loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr, Var

Limits = tuple[float, float]
UNKNOWN: Final[Limits] = (-math.inf, math.inf)


@dataclass(eq=False, slots=True)
class Loop:
    """A loop as features see it. `extent` is None where it is no constant; then it counts as one iteration."""

    depth: int
    low: int
    extent: int | None
    kind: int
    thread: str
    auto_unroll: int | None

    @property
    def times(self) -> int:
        """Iterations."""
        return 1 if self.extent is None else self.extent

    def limits(self, level: int) -> Limits:
        """The values of its variable when loops at `level` and deeper run and the others stand at their first value."""
        return self.low, self.low + (max(self.times - 1, 0) if self.depth >= level else 0)


@dataclass(eq=False, slots=True)
class Part:
    """What is no sum: a quotient, remainder, smaller or larger one (`op`), the lanes of a vector, or a symbol that is
    constant in the program (no forms); `Part("?", ...)` may be anything.
    """

    op: str
    forms: tuple[Form, ...] = ()

    def limits(self, level: int) -> Limits:
        """As for a loop; a symbol counts as 0."""
        if self.op == "symbol":
            return 0, 0
        if self.op == "lanes":
            return 0, self.forms[0].const
        if self.op == "?" or not self.forms:
            return UNKNOWN
        (a, b), (c, d) = self.forms[0].limits(level), self.forms[1].limits(level)
        if self.op == "min":
            return min(a, c), min(b, d)
        if self.op == "max":
            return max(a, c), max(b, d)
        if c != d or c <= 0 or math.isinf(c):
            return UNKNOWN
        if self.op == "div":
            return (a if math.isinf(a) else a // c), (b if math.isinf(b) else b // c)
        if not math.isinf(a) and not math.isinf(b) and a // c == b // c:
            return a % c, b % c
        return 0, c - 1


@dataclass(slots=True)
class Form:
    """A constant, and loops or parts with their factors."""

    const: int = 0
    terms: dict[Loop | Part, int] = field(default_factory=dict["Loop | Part", int])

    def limits(self, level: int) -> Limits:
        """The range when loops at `level` and deeper run and the others stand at their first value."""
        low: float = self.const
        high: float = self.const
        for atom, factor in self.terms.items():
            a, b = atom.limits(level)
            if factor > 0:
                low += factor * a
                high += factor * b
            else:
                low += factor * b
                high += factor * a
        return low, high

    def factor_of(self, loop: Loop) -> int:
        """How far a step of `loop` leads: its factor, 2 where it occurs within a part only, 0 where it does not."""
        if loop in self.terms:
            return abs(self.terms[loop])
        return 2 if loop in loops_of(self) else 0

    def operations(self) -> tuple[int, int, int, int]:
        """Additions, multiplications, divisions and comparisons that it takes."""
        adds = max(len(self.terms) + (self.const != 0) - 1, 0)
        counts = [adds, sum(abs(c) != 1 for c in self.terms.values()), 0, 0]
        for t in self.terms:
            if isinstance(t, Part) and t.op in ("div", "mod", "min", "max"):
                counts[2 if t.op in ("div", "mod") else 3] += 1
                for f in t.forms:
                    for n, more in enumerate(f.operations()):
                        counts[n] += more
        return counts[0], counts[1], counts[2], counts[3]


def loops_of(form: Form) -> dict[Loop, None]:
    """The loops that occur in a form, within parts too."""
    found: dict[Loop, None] = {}
    for t in form.terms:
        if isinstance(t, Loop):
            found[t] = None
        else:
            for f in t.forms:
                found.update(loops_of(f))
    return found


def add(a: Form, b: Form, scale: int = 1) -> Form:
    """`a + scale * b`."""
    terms = dict(a.terms)
    for t, c in b.terms.items():
        total = terms.get(t, 0) + scale * c
        if total:
            terms[t] = total
        else:
            terms.pop(t, None)
    return Form(a.const + scale * b.const, terms)


_PARTS: Final[dict[type[Any], str]] = {
    ex.FloorDiv: "div", ex.Div: "div", ex.FloorMod: "mod", ex.Mod: "mod", ex.Min: "min", ex.Max: "max",
}  # fmt: skip


class Forms:
    """Forms of expressions, under what is known of variables."""

    def __init__(self) -> None:
        self.values: dict[Var, Form] = {}
        self._known: dict[PrimExpr, Form] = {}
        self._parts: dict[tuple[Any, ...], Part] = {}

    def bind(self, var: Var, form: Form) -> None:
        """Let a variable stand for a form from now on."""
        self.values[var] = form
        self._known.clear()

    def of(self, e: PrimExpr) -> Form:
        """The form of an expression."""
        found = self._known.get(e)
        if found is None:
            found = self._known[e] = self._made(e)
        return found

    def all(self, es: Sequence[PrimExpr]) -> tuple[Form, ...]:
        """The form of each."""
        return tuple(self.of(e) for e in es)

    def _made(self, e: PrimExpr) -> Form:
        match e:
            case IntImm():
                return Form(e.value)
            case Var():
                return self.values.get(e) or Form(0, {self._part("symbol", e): 1})
            case ex.Add():
                return add(self.of(e.a), self.of(e.b))
            case ex.Sub():
                return add(self.of(e.a), self.of(e.b), -1)
            case ex.Mul():
                a, b = self.of(e.a), self.of(e.b)
                if not b.terms:
                    return add(Form(), a, b.const) if b.const else Form()
                if not a.terms:
                    return add(Form(), b, a.const) if a.const else Form()
            case ex.Cast():
                return self.of(e.value)
            case ex.Broadcast():
                return self.of(e.value)
            case ex.Ramp():
                stride = self.of(e.stride)
                lanes = Part("lanes", (Form(e.lanes - 1),))
                return add(self.of(e.base), Form(0, {lanes: 1}), 1 if stride.terms else stride.const)
            case _ if (op := _PARTS.get(type(e))) is not None and isinstance(e, ex.BinaryExpr):
                return self._quotient(op, self.of(e.a), self.of(e.b))
            case _:
                pass
        return Form(0, {Part("?"): 1})

    def _quotient(self, op: str, a: Form, b: Form) -> Form:
        """A part, or what it amounts to where factors and ranges tell."""
        if op in ("div", "mod") and not b.terms and b.const > 0:
            c = b.const
            whole = {t: f // c for t, f in a.terms.items() if f % c == 0}
            rest = Form(a.const % c, {t: f for t, f in a.terms.items() if f % c})
            low, high = rest.limits(0)
            if 0 <= low and high < c:
                return Form(a.const // c, whole) if op == "div" else rest
            if op == "div" and whole:
                return add(Form(a.const // c, whole), Form(0, {self._part(op, rest, b): 1}))
            if op == "mod":
                a = rest
        return Form(0, {self._part(op, a, b): 1})

    def _part(self, op: str, *of: Form | Var) -> Part:
        """One part for equal operands, so that equal subscripts have equal forms."""
        key = (op, *((x.const, tuple(x.terms.items())) if isinstance(x, Form) else x for x in of))
        known = self._parts.get(key)
        if known is None:
            known = self._parts[key] = Part(op, tuple(x for x in of if isinstance(x, Form)))
        return known


def without(form: Form, inside: int) -> tuple[Mapping[Loop | Part, int], Form | None]:
    """A form as its terms of loops above depth `inside`, and the rest; None for a part that mixes both."""
    outer: dict[Loop | Part, int] = {}
    inner: dict[Loop | Part, int] = {}
    for t, c in form.terms.items():
        depths = [v.depth for v in loops_of(Form(0, {t: 1}))]
        if isinstance(t, Part) and t.op == "?":
            return {}, None
        if all(d < inside for d in depths) and (depths or t.limits(0) == (0, 0)):
            outer[t] = c
        elif all(d >= inside for d in depths):
            inner[t] = c
        else:
            return {}, None
    return outer, Form(form.const, inner)
