"""The analyzer: facts about variables, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

from tscript.arith.const_bound import Bound
from tscript.arith.context import Context, joined_parts
from tscript.arith.forms import form_of, is_index, plus, scaled
from tscript.arith.modular import ModularSet
from tscript.arith.polynomial import expanded
from tscript.arith.simplify import STEP_BUDGET, Simplifier
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import ExprLike, IntImm, PrimExpr, Range, Var
from tscript.ir.linear import LinearForm

_NESTED_CONDITIONS = 64


class ProofStrength(IntEnum):
    """How hard `can_prove` tries: with single known inequalities, or with several of them together."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class CompareResult(IntEnum):
    """What is certain of two numbers: how the first compares with the second."""

    INCONSISTENT = 0
    EQ = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5
    NE = 6
    UNKNOWN = 7


class ConstIntBound(NamedTuple):
    """Constant bounds, both inclusive; `POS_INF` and `NEG_INF` stand for none."""

    min_value: int | float
    max_value: int | float

    POS_INF = math.inf
    NEG_INF = -math.inf

    @staticmethod
    def of(bound: Bound) -> ConstIntBound:
        """The same bounds in this form."""
        return ConstIntBound(
            -math.inf if bound.low is None else bound.low, math.inf if bound.high is None else bound.high
        )

    @property
    def bound(self) -> Bound:
        """The same bounds with None for those that are missing."""
        low, high = self.min_value, self.max_value
        return Bound(None if low == -math.inf else int(low), None if high == math.inf else int(high))


_COMPARISONS = (
    (ex.EQ, CompareResult.EQ), (ex.LT, CompareResult.LT), (ex.GT, CompareResult.GT), (ex.LE, CompareResult.LE),
    (ex.GE, CompareResult.GE), (ex.NE, CompareResult.NE),
)  # fmt: skip


class Analyzer:
    """Reasons about integer expressions, given what is known of their variables.

    Signed arithmetic of 32 and 64 bits is taken not to overflow. Numbers inside are unbounded. `budget` limits
    the rewriting steps of one simplification; what is not simpler by then stays as it is.

    >>> analyzer = Analyzer()
    >>> i, j = Var("i"), Var("j")
    >>> analyzer.bind(j, Range(0, 4))
    >>> analyzer.simplify((i * 4 + j) // 4) is i
    True
    """

    evaluate_set: ClassVar[Callable[[PrimExpr, Mapping[Var, Any], Analyzer], Any]]
    """How `int_set` evaluates: given by the sets, which are built on analyzers."""

    def __init__(self, budget: int = STEP_BUDGET) -> None:
        self._context = Context()
        self._budget = budget

    @property
    def context(self) -> Context:
        """The facts."""
        return self._context

    # -- facts ------------------------------------------------------------------------------------

    def bind(
        self, var: Var, value: Range | ExprLike, allow_override: bool = True, *, keep_trivial: bool = False
    ) -> None:
        """Note that `var` runs over a range, or is the same as an expression.

        A range of one value counts as that value, unless `keep_trivial`. Raises ValueError for a variable
        bound before, unless `allow_override`.
        """
        ctx = self._context
        if not allow_override and (var in ctx.values or var in ctx.bounds):
            raise ValueError(f"{var.name} is bound already; pass allow_override=True to bind it anew")
        ctx.values.pop(var, None)
        ctx.bounds.pop(var, None)
        ctx.residues.pop(var, None)
        if ctx.facts:
            ctx.facts = [f for f in ctx.facts if var not in f[0]]
        ctx.forget_derived()
        if isinstance(value, Range):
            extent = self.simplify(value.extent)
            if isinstance(extent, IntImm) and extent.value == 1 and not keep_trivial:
                value = value.min
            else:
                self._bind_range(var, self.simplify(value.min), extent)
                return
        e = self.simplify(make.cast(make.convert(value), var.dtype))
        ctx.set_bound(var, ctx.bound(e))
        residue = ctx.residue(e)
        ctx.values[var] = e
        if residue != (1, 0):
            ctx.residues[var] = residue
        ctx.forget_derived()

    def assume_positive(self, expr: PrimExpr) -> None:
        """Note that `expr >= 1`."""
        terms, constant = form_of(self.simplify(expr))
        self._context.add_fact((terms, constant - 1))

    def fork(self) -> Analyzer:
        """An analyzer that knows the same, and whose further facts stay its own."""
        made = Analyzer(self._budget)
        made._context = self._context.inner()
        return made

    def _bind_range(self, var: Var, low: PrimExpr, extent: PrimExpr) -> None:
        ctx = self._context
        start = form_of(low)
        last = plus(plus(start, form_of(extent)), ({}, -1))
        first_bound, last_bound = ctx.form_bound(start), ctx.form_bound(last)
        if first_bound.low is not None and last_bound.high is not None and first_bound.low > last_bound.high:
            # The range is empty: any bound would do, one that holds no value would not.
            last_bound = first_bound
        ctx.bounds[var] = Bound(first_bound.low, last_bound.high)
        if not start[0] and not last[0]:
            return
        me: LinearForm = ({var: 1}, 0)
        if start[0]:
            ctx.facts.append(plus(me, start, -1))
        if last[0]:
            ctx.facts.append(plus(last, me, -1))
        ctx.forget_derived()

    def update(self, var: Var, info: ConstIntBound | ModularSet | Bound, override: bool = False) -> None:
        """Note bounds or remainders of a variable; `override` replaces what was known, else both hold."""
        ctx = self._context
        if isinstance(info, ModularSet):
            if override:
                ctx.residues.pop(var, None)
            ctx.add_residue(var, info)
            return
        bound = info.bound if isinstance(info, ConstIntBound) else info
        if override:
            ctx.set_bound(var, bound)
        else:
            ctx.narrow(var, bound.low, bound.high)

    @contextmanager
    def constraint_scope(self, condition: ExprLike) -> Generator[None, None, None]:
        """Inside, `condition` holds. Parts of it that read memory are passed over: a store may undo them.

        >>> analyzer, n = Analyzer(), Var("n")
        >>> with analyzer.constraint_scope(n < 4):
        ...     analyzer.can_prove(n <= 3)
        True
        """
        outer = self._context
        normal = self.simplify(make.convert(condition))
        self._context = outer.inner()
        try:
            self._context.add_condition(normal)
            yield
        finally:
            self._context = outer

    # -- simplification ---------------------------------------------------------------------------

    def set_maximum_rewrite_steps(self, maximum: int) -> None:
        """Let one simplification take `maximum` rewriting steps from now on. Raises ValueError for less than one.

        >>> analyzer, i = Analyzer(), Var("i")
        >>> analyzer.set_maximum_rewrite_steps(100)
        >>> analyzer.simplify(i + 1 - 1) is i
        True
        """
        if maximum < 1:
            raise ValueError(f"{maximum} rewriting steps were asked for: give at least 1")
        self._budget = maximum
        self._context.forget_derived()

    def simplify(self, expr: ExprLike, steps: int = 2) -> PrimExpr:
        """An equal expression in normal form; the same object where it was in normal form already.

        `steps` is accepted for the sake of callers that count passes; the result is always a fixed point.
        """
        e = expr if isinstance(expr, PrimExpr) else make.convert(expr)
        if isinstance(e, IntImm):
            return e
        found = self._context.simplified.get(e)
        return found if found is not None else Simplifier(self._context, budget=self._budget).rewrite(e)

    def rewrite_simplify(self, expr: ExprLike) -> PrimExpr:
        """An equal expression after rewrite rules alone."""
        return Simplifier(self._context, forms=False, budget=self._budget).rewrite(make.convert(expr))

    def canonical_simplify(self, expr: ExprLike) -> PrimExpr:
        """An equal expression with sums, divisions and comparisons in normal form, without rewrite rules."""
        return Simplifier(self._context, rules=False, budget=self._budget).rewrite(make.convert(expr))

    # -- questions --------------------------------------------------------------------------------

    def bound(self, expr: PrimExpr) -> Bound:
        """Constant bounds of `expr`; None for those that are missing."""
        e = self.simplify(expr)
        return self._context.tight_bound(form_of(e)) if is_index(e) else self._context.bound(e)

    def const_int_bound(self, expr: ExprLike) -> ConstIntBound:
        """Constant bounds of `expr`.

        >>> analyzer, i = Analyzer(), Var("i")
        >>> analyzer.bind(i, Range(0, 8))
        >>> analyzer.const_int_bound(i * 2 + 1)
        ConstIntBound(min_value=1, max_value=15)
        """
        return ConstIntBound.of(self.bound(make.convert(expr)))

    def const_int_bound_is_bound(self, var: Var) -> bool:
        """Whether a range, a value or bounds of `var` were given."""
        return var in self._context.bounds or var in self._context.values

    def modular_set(self, expr: ExprLike) -> ModularSet:
        """What is known of remainders of `expr`: it is `base` plus a multiple of `coeff`."""
        return self._context.residue(self.simplify(expr))

    def int_set(self, expr: ExprLike, dom_map: Mapping[Var, Any] | None = None) -> Any:
        """The `IntervalSet` that `expr` runs through while variables run through their sets in `dom_map`.

        Without `dom_map`, variables run through the constant bounds they have here.

        >>> from tscript.arith import Analyzer, IntSet
        >>> analyzer, i, n = Analyzer(), Var("i"), Var("n")
        >>> analyzer.int_set(i * 2 + n, {i: IntSet.interval(0, 3)})
        IntervalSet[n, n + 6]
        """
        return Analyzer.evaluate_set(make.convert(expr), self._context.bounds if dom_map is None else dom_map, self)

    def can_prove(self, condition: ExprLike, strength: int = ProofStrength.DEFAULT) -> bool:
        """Whether `condition` certainly holds for all values of its variables."""
        return self._holds(self.simplify(condition), strength, _NESTED_CONDITIONS)

    def _holds(self, e: PrimExpr, strength: int, nesting: int) -> bool:
        if isinstance(e, IntImm):
            return e.value != 0
        match e:
            case ex.And() | ex.Or():
                if nesting == 0:
                    return False
                check = all if isinstance(e, ex.And) else any
                return check(self._holds(part, strength, nesting - 1) for part in joined_parts(e, type(e)))
            case ex.LT() | ex.LE() if is_index(e.a):
                gap = plus(form_of(e.b), form_of(e.a), -1)
                if isinstance(e, ex.LT):
                    gap = gap[0], gap[1] - 1
                return self._is_nonneg(gap, strength)
            case ex.EQ() if is_index(e.a):
                gap = plus(form_of(e.a), form_of(e.b), -1)
                if not expanded(gap)[0]:
                    return expanded(gap)[1] == 0
                return self._is_nonneg(gap, strength) and self._is_nonneg(scaled(gap, -1), strength)
            case _:
                return False

    def _is_nonneg(self, gap: LinearForm, strength: int) -> bool:
        ctx, depth = self._context, 1 if strength == ProofStrength.DEFAULT else 3
        return ctx.is_nonneg(gap, depth) or ctx.is_nonneg(expanded(gap), depth)

    def try_compare(self, lhs: ExprLike, rhs: ExprLike, propagate_inequalities: bool = True) -> CompareResult:
        """The most that is certain of how `lhs` compares with `rhs`; several known inequalities may be combined for it.

        >>> analyzer, i, n = Analyzer(), Var("i"), Var("n")
        >>> analyzer.bind(i, Range(0, n))
        >>> analyzer.try_compare(i, n).name
        'LT'
        """
        strength = ProofStrength.SYMBOLIC_BOUND if propagate_inequalities else ProofStrength.DEFAULT
        for kind, result in _COMPARISONS:
            if self.can_prove(make.compare(kind, lhs, rhs), strength):
                return result
        return CompareResult.UNKNOWN

    def can_prove_equal(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether `a` and `b` certainly have the same value."""
        x, y = make.promote(make.convert(a), make.convert(b))
        return x is y or self.can_prove(make.compare(ex.EQ, x, y))

    def can_prove_greater_equal(self, expr: ExprLike, lower_bound: ExprLike) -> bool:
        """Whether `expr >= lower_bound` certainly holds."""
        return self.can_prove(make.compare(ex.GE, expr, lower_bound))

    def can_prove_less(self, expr: ExprLike, upper_bound: ExprLike) -> bool:
        """Whether `expr < upper_bound` certainly holds."""
        return self.can_prove(make.compare(ex.LT, expr, upper_bound))
