"""What is known about variables: values, constant bounds, remainders, inequalities and true conditions.

Knowledge of symbolic bounds is a list of linear forms that are at least zero. A form is proved to be at
least zero when its interval is, or when it is a known form, scaled, plus something whose interval is.
"""

from __future__ import annotations

from collections.abc import Mapping

from tscript.arith.const_bound import Bound, const_bound
from tscript.arith.forms import form_of, is_index, plus, scaled
from tscript.arith.modular import ModularSet, meet, modular_set
from tscript.ir import expr as ex
from tscript.ir.base import Node
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.linear import LinearForm
from tscript.ir.occurrences import any_below

_FACT_LIMIT = 64
_WORK_LIMIT = 200_000
"""Terms that one proof may look at."""


class _Work:
    """What is left of the work that one proof may do."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _WORK_LIMIT

    def exceeded(self, cost: int) -> bool:
        """Take `cost` off; whether nothing is left."""
        self.left -= cost
        return self.left < 0


class Context:
    """Facts, and what was derived from them so far.

    `known` has bounds of expressions that are no variables, `facts` forms that are at least zero, `truths`
    conditions in normal form whose truth is known.
    """

    __slots__ = (
        "_bound_memo", "_residue_memo", "bounds", "facts", "known", "residues", "simplified", "truths", "values",
    )  # fmt: skip

    def __init__(self) -> None:
        self.bounds: dict[Var, Bound] = {}
        self.values: dict[Var, PrimExpr] = {}
        self.residues: dict[Var, ModularSet] = {}
        self.known: dict[PrimExpr, Bound] = {}
        self.facts: list[LinearForm] = []
        self.truths: dict[PrimExpr, bool] = {}
        self.simplified: dict[PrimExpr, PrimExpr] = {}
        self._bound_memo: dict[PrimExpr, Bound] = {}
        self._residue_memo: dict[PrimExpr, ModularSet] = {}

    @staticmethod
    def of_bounds(bounds: Mapping[Var, Bound]) -> Context:
        """A context that knows constant bounds only."""
        made = Context()
        made.bounds = dict(bounds)
        return made

    def inner(self) -> Context:
        """A context that knows the same and can learn more."""
        made = Context()
        made.bounds = dict(self.bounds)
        made.values = dict(self.values)
        made.residues = dict(self.residues)
        made.known = dict(self.known)
        made.facts = list(self.facts)
        made.truths = dict(self.truths)
        made._bound_memo = dict(self.known)
        return made

    def forget_derived(self) -> None:
        """Drop what was derived, after a fact changed."""
        if self.simplified:
            self.simplified = {}
        self._bound_memo = dict(self.known)
        if self._residue_memo:
            self._residue_memo = {}

    # -- answers ----------------------------------------------------------------------------------

    def bound(self, e: PrimExpr) -> Bound:
        """Constant bounds of `e`."""
        found = self._bound_memo.get(e)
        if found is not None:
            return found
        if isinstance(e, Var) and e in self.bounds:
            return self.bounds[e]
        return const_bound(e, self.bounds, self._bound_memo)

    def residue(self, e: PrimExpr) -> ModularSet:
        """What is known of remainders of `e`."""
        return modular_set(e, self.residues, self._residue_memo)

    def form_bound(self, form: LinearForm) -> Bound:
        """Constant bounds of a form, term by term."""
        low: int | None = form[1]
        high: int | None = form[1]
        for t, c in form[0].items():
            b = self.bound(t)
            first, last = (b.low, b.high) if c > 0 else (b.high, b.low)
            low = None if low is None or first is None else low + c * first
            high = None if high is None or last is None else high + c * last
            if low is None and high is None:
                break
        return Bound(low, high)

    def tight_bound(self, form: LinearForm) -> Bound:
        """Constant bounds of a form, with the help of known inequalities."""
        plain = self.form_bound(form)
        if not self.facts or not form[0]:
            return plain
        low, high = plain.low, plain.high
        for fact in self.facts:
            # form = k * fact + rest, so it is at least the least rest for k > 0, at most the largest for k < 0.
            for k in _ratios(form, fact):
                rest = self.form_bound(plus(form, fact, -k))
                if k > 0 and rest.low is not None and (low is None or rest.low > low):
                    low = rest.low
                if k < 0 and rest.high is not None and (high is None or rest.high < high):
                    high = rest.high
        return Bound(low, high)

    def is_nonneg(self, form: LinearForm, depth: int = 1) -> bool:
        """Whether `form >= 0` is certain; `depth` limits how many known inequalities are combined."""
        low = self.form_bound(form).low
        if low is not None:
            if low >= 0:
                return True
            if not form[0]:
                return False
        work = _Work()
        return self._by_facts(form, depth, work) or self._by_rounding(form, depth, 2, work)

    def _by_facts(self, form: LinearForm, depth: int, work: _Work) -> bool:
        for fact in self.facts:
            for k in _ratios(form, fact):
                if k > 0:
                    if work.exceeded(len(form[0]) + len(fact[0])):
                        return False
                    rest = plus(form, fact, -k)
                    below = self.form_bound(rest).low
                    if below is not None and below >= 0:
                        return True
                    if depth > 1 and self._by_facts(rest, depth - 1, work):
                        return True
        return False

    def _by_rounding(self, form: LinearForm, depth: int, rounds: int, work: _Work) -> bool:
        """Whether `form >= 0` follows from `N - c + 1 <= c * (N // c) <= N`, for quotients in it."""
        for t, k in form[0].items():
            if not (isinstance(t, ex.FloorDiv) and isinstance(t.b, IntImm) and t.b.value > 0):
                continue
            if work.exceeded(2 * len(form[0])):
                return False
            rest: LinearForm = ({o: c for o, c in form[0].items() if o is not t}, form[1])
            for numerator, divisor in _quotients(t, t.b.value, rest):
                if work.exceeded(len(rest[0]) + len(numerator[0])):
                    return False
                least = plus(numerator, ({}, -(divisor - 1))) if k > 0 else numerator
                without = plus(scaled(rest, divisor), least, k)
                below = self.form_bound(without).low
                if (below is not None and below >= 0) or (self.facts and self._by_facts(without, depth, work)):
                    return True
                if rounds > 1 and self._by_rounding(without, depth, rounds - 1, work):
                    return True
        return False

    # -- learning ---------------------------------------------------------------------------------

    def set_bound(self, var: Var, bound: Bound) -> None:
        """Note bounds of a variable, in place of older ones."""
        self.bounds[var] = bound
        self.forget_derived()

    def narrow(self, e: PrimExpr, low: int | None, high: int | None) -> None:
        """Note that `e` lies between `low` and `high`."""
        old = self.bound(e)
        new = Bound(
            old.low if low is None or (old.low is not None and old.low >= low) else low,
            old.high if high is None or (old.high is not None and old.high <= high) else high,
        )
        if new == old or (new.low is not None and new.high is not None and new.low > new.high):
            # What contradicts older knowledge belongs to code that never runs; an empty bound would help nobody.
            return
        if isinstance(e, Var):
            self.bounds[e] = new
        else:
            self.known[e] = new
            if isinstance(e, ex.FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0:
                numerator, c = form_of(e.a), e.b.value
                if new.low is not None and new.low != old.low:
                    self.add_fact(plus(numerator, ({}, -new.low * c)))
                if new.high is not None and new.high != old.high:
                    self.add_fact(plus(({}, new.high * c + c - 1), numerator, -1))
        self.forget_derived()

    def add_fact(self, form: LinearForm) -> None:
        """Note that `form >= 0`."""
        terms, constant = form
        if not terms:
            return
        highs = {t: self.form_bound(({t: c}, 0)).high for t, c in terms.items()}
        known = constant + sum(high for high in highs.values() if high is not None)
        open_ends = sum(high is None for high in highs.values())
        for t, c in terms.items():
            high = highs[t]
            if open_ends == 0 and high is not None:
                most = known - high
            elif open_ends == 1 and high is None:
                most = known
            else:
                continue
            # c * t is at least what the others leave of zero.
            if c > 0:
                self.narrow(t, -(most // c), None)
            else:
                self.narrow(t, None, most // -c)
        if len(terms) > 1 and len(self.facts) < _FACT_LIMIT:
            self.facts.append(form)
            self.forget_derived()

    def add_residue(self, var: Var, residue: ModularSet) -> None:
        """Note a remainder of a variable."""
        old = self.residues.get(var)
        self.residues[var] = residue if old is None else meet(old, residue)
        self.forget_derived()

    def add_condition(self, condition: PrimExpr) -> None:
        """Note that a condition in normal form holds. What reads memory is passed over: it may not hold for long."""
        for part in conjuncts(condition):
            if is_pure_index(part):
                self._add_conjunct(part)

    def _add_conjunct(self, e: PrimExpr) -> None:
        self.truths[e] = True
        opposite = _OPPOSITE.get(type(e))
        if opposite is not None:
            assert isinstance(e, ex.BinaryExpr)
            swapped, kind = opposite
            self.truths[kind(e.b, e.a) if swapped else kind(e.a, e.b)] = False
        elif isinstance(e, ex.Not):
            self.truths[e.a] = False
        else:
            self.truths[ex.Not(e)] = False
        self.forget_derived()
        if not (isinstance(e, ex.CmpExpr) and is_index(e.a)):
            return
        gap = plus(form_of(e.b), form_of(e.a), -1)
        match e:
            case ex.LT():
                self.add_fact((gap[0], gap[1] - 1))
            case ex.LE():
                self.add_fact(gap)
            case ex.EQ():
                self._add_equation(e, gap)
            case ex.NE():
                self._exclude(gap)
            case _:
                pass

    def _add_equation(self, e: ex.CmpExpr, gap: LinearForm) -> None:
        self.add_fact(gap)
        self.add_fact(scaled(gap, -1))
        side, value = e.a, e.b
        if isinstance(side, ex.FloorMod) and isinstance(side.b, IntImm) and isinstance(value, IntImm):
            if isinstance(side.a, Var) and side.b.value > 0:
                self.add_residue(side.a, ModularSet(side.b.value, value.value % side.b.value))

    def _exclude(self, gap: LinearForm) -> None:
        terms, constant = gap
        if len(terms) != 1:
            return
        ((t, c),) = terms.items()
        if constant % c:
            return
        value, b = -constant // c, self.bound(t)
        if b.low == value:
            self.narrow(t, value + 1, None)
        if b.high == value:
            self.narrow(t, None, value - 1)


_OPPOSITE: dict[type[PrimExpr], tuple[bool, type[ex.CmpExpr]]] = {
    ex.LT: (True, ex.LE),
    ex.LE: (True, ex.LT),
    ex.EQ: (False, ex.NE),
    ex.NE: (False, ex.EQ),
}


_OF_VALUES = frozenset(
    "tir." + name
    for name in "if_then_else likely bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right".split()
)


def _ratios(form: LinearForm, fact: LinearForm) -> list[int]:
    """Factors with which taking off `fact` cancels a term of `form`."""
    found: dict[int, None] = {}
    mine = form[0]
    for t, c in fact[0].items():
        other = mine.get(t)
        if other is not None and other % c == 0:
            found[other // c] = None
    return list(found)


def _quotients(t: ex.FloorDiv, divisor: int, others: LinearForm) -> list[tuple[LinearForm, int]]:
    """`t` as numerator and divisor: as it is written, and as quotient of a smaller quotient among `others`."""
    mine = form_of(t.a)
    found = [(mine, divisor)]
    for o in others[0]:
        if isinstance(o, ex.FloorDiv) and isinstance(o.b, IntImm) and 0 < o.b.value < divisor:
            inner = o.b.value
            # N // (a * b) is (N // a) // b, and N // a is M // a plus d where N is M plus d * a.
            terms, constant = plus(mine, form_of(o.a), -1)
            if divisor % inner == 0 and not terms and constant % inner == 0:
                found.append((({o: 1}, constant // inner), divisor // inner))
    return found


def joined_parts(condition: PrimExpr, kind: type[ex.LogicExpr]) -> list[PrimExpr]:
    """The parts that `and`, or `or`, joins, in order."""
    found: list[PrimExpr] = []
    stack = [condition]
    while stack:
        e = stack.pop()
        if isinstance(e, kind):
            stack += [e.b, e.a]
        else:
            found.append(e)
    return found


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """The parts that `and` joins, in order."""
    return joined_parts(condition, ex.And)


def is_pure_index(e: PrimExpr) -> bool:
    """Whether the value of `e` depends on variables alone: no memory is read, nothing is called that may change."""
    return not any_below(e, _may_change)


def _may_change(n: Node) -> bool:
    if isinstance(n, ex.Call):
        return not (isinstance(n.op, ex.Op) and n.op.name in _OF_VALUES)
    return isinstance(n, (ex.BufferLoad, ex.ProducerLoad, ex.Reduce))
