"""Simplification of index arithmetic: normal forms of sums, divisions and comparisons, and rewrite rules.

Operands come before what they are operands of. What a rule or normal form makes is simplified again until
nothing changes, or until the steps of the budget are used up, from when on expressions stay as they are.
Signed index arithmetic is taken not to overflow; unsigned, narrow and floating-point arithmetic is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from tscript.arith.canonical import canonical_floordiv, canonical_floormod, canonical_sum
from tscript.arith.comparison import FALSE, TRUE, canonical_comparison, implies, negated
from tscript.arith.const_bound import Bound
from tscript.arith.context import Context, joined_parts
from tscript.arith.forms import form_of, is_index, plus, scaled
from tscript.arith.rule import COMMUTATIVE, RuleTable
from tscript.arith.rules import RULES
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import int_range
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.functor import Rewriter, children
from tscript.ir.linear import LinearForm

STEP_BUDGET: Final = 20_000
_LEAVES: Final = (Var, IntImm, ex.FloatImm, ex.StringImm)
_NESTED_CONDITIONS: Final = 8
_CONTEXT_COST: Final = 64
"""Steps that learning a condition is worth."""
_JOINED_CONDITIONS: Final = 24


def simplify(expr: PrimExpr, bounds: Mapping[Var, Bound] | None = None) -> PrimExpr:
    """An equal expression in normal form; the same object where that is what it was.

    `bounds` gives ranges of variables. Use an `Analyzer` where more is known or many expressions are simplified.

    >>> i = Var("i")
    >>> simplify((i * 4 + 3) // 4) is i
    True
    """
    if isinstance(expr, (Var, IntImm)):
        return expr
    return Simplifier(Context.of_bounds(bounds or {})).rewrite(expr)


class Simplifier(Rewriter):
    """Simplifies expressions in a context. `rules` and `forms` switch off rewrite rules or normal forms."""

    tables: ClassVar[dict[type[PrimExpr], RuleTable]] = {kind: RuleTable(rules) for kind, rules in RULES.items()}

    def __init__(
        self, context: Context, *, rules: bool = True, forms: bool = True, budget: int = STEP_BUDGET, nesting: int = 0
    ) -> None:
        super().__init__()
        self.ctx = context
        self._rules, self._forms = rules, forms
        self._nesting = nesting
        if rules and forms:
            # The memo belongs to the facts: it goes when they change.
            self._memo = context.simplified
        self._budget = budget

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """Buffers stay: a simpler shape would make another buffer."""
        return buffer

    def _rewrite_expr(self, root: PrimExpr) -> PrimExpr:
        memo = self._memo
        found = memo.get(root)
        if found is not None:
            return found
        stack: list[PrimExpr] = [root]
        waiting: dict[PrimExpr, PrimExpr] = {}
        """Expressions whose new form is being simplified in turn."""
        forms: dict[PrimExpr, LinearForm] = {}
        while stack:
            e = stack[-1]
            if e in memo:
                stack.pop()
                continue
            if isinstance(e, _LEAVES):
                memo[e] = self._leaf(e)
                stack.pop()
                continue
            new = waiting.get(e)
            if new is None:
                todo = [x for x in self._operands(e, forms) if x not in memo]
                if todo:
                    stack.extend(reversed(todo))
                    continue
                new = self._step(e, forms)
                if new is e:
                    memo[e] = e
                    stack.pop()
                    continue
                waiting[e] = new
            done = memo.get(new)
            if done is None and self._budget > 0 and new not in waiting:
                stack.append(new)
                continue
            memo[e] = new if done is None else done
            stack.pop()
        return memo[root]

    def _leaf(self, e: PrimExpr) -> PrimExpr:
        if isinstance(e, Var):
            value = self.ctx.values.get(e)
            if value is not None:
                return value
            if e.dtype.is_bool and e in self.ctx.truths:
                return TRUE if self.ctx.truths[e] else FALSE
        return e

    def _operands(self, e: PrimExpr, forms: dict[PrimExpr, LinearForm]) -> list[PrimExpr]:
        if isinstance(e, ex.BinaryExpr):
            if self._forms and isinstance(e, (ex.Add, ex.Sub, ex.Mul)) and is_index(e):
                form = forms.get(e)
                if form is None:
                    form = forms[e] = form_of(e)
                if e not in form[0]:
                    return list(form[0])
            return [e.a, e.b]
        if self._is_choice(e):
            return [_condition(e)]
        return [c for c in children(e) if isinstance(c, PrimExpr)]

    def _is_choice(self, e: PrimExpr) -> bool:
        if isinstance(e, ex.Select):
            return True
        return isinstance(e, ex.Call) and isinstance(e.op, ex.Op) and e.op.name == "tir.if_then_else"

    def _step(self, e: PrimExpr, forms: dict[PrimExpr, LinearForm]) -> PrimExpr:
        """`e` with simplified operands, or what one normal form or rule makes of that."""
        memo = self._memo
        if self._budget <= 0:
            return e
        if isinstance(e, ex.BinaryExpr):
            form = forms.get(e)
            if form is not None and e not in form[0]:
                return self._sum(e, form)
            a, b = memo[e.a], memo[e.b]
            if a is not e.a or b is not e.b:
                e = type(e)(a, b)
            return self._root(e, (a, b))
        if self._is_choice(e):
            return self._choice(e)
        made = self._rebuild(e, memo)
        handler = _OTHERS.get(type(made))
        return made if handler is None else self._noted(made, handler(self, made))

    def _noted(self, old: PrimExpr, new: PrimExpr | None) -> PrimExpr:
        if new is None or new is old:
            return old
        self._budget -= 1
        return new

    def _sum(self, e: PrimExpr, form: LinearForm) -> PrimExpr:
        memo = self._memo
        total: LinearForm = ({}, form[1])
        if all(memo[t] is t for t in form[0]):
            total = form
        else:
            for t, c in form[0].items():
                total = plus(total, form_of(memo[t]), c)
        self._budget -= len(form[0]) >> 6
        made = canonical_sum(total, e.dtype)
        if made is None:
            return e
        if isinstance(made, (ex.Add, ex.Sub)):
            return self._noted(made, self._rule(made, (made.a, made.b)))
        return made

    def _root(self, e: PrimExpr, operands: tuple[PrimExpr, ...]) -> PrimExpr:
        """What a normal form or rule makes of `e`, whose operands are in normal form."""
        folded = self._folded(e, operands)
        if folded is not None:
            return folded
        if self._forms:
            handler = _FORMS.get(type(e))
            new = None if handler is None else handler(self, e)
            if new is not None and new is not e:
                return self._noted(e, new)
        elif type(e) in COMMUTATIVE and isinstance(operands[0], IntImm):
            # Rules have constants on the right.
            return self._noted(e, type(e)(*reversed(operands)))
        new = self._rule(e, operands)
        if new is None and e.dtype.is_bool and (truth := self.ctx.truths.get(e)) is not None:
            new = TRUE if truth else FALSE
        return self._noted(e, new)

    def _rule(self, e: PrimExpr, operands: tuple[PrimExpr, ...]) -> PrimExpr | None:
        if not self._rules:
            return None
        table = self.tables.get(type(e))
        return None if table is None else table.apply(e, operands, self.ctx)

    def _folded(self, e: PrimExpr, operands: tuple[PrimExpr, ...]) -> PrimExpr | None:
        builder = _FOLDERS.get(type(e))
        if builder is None or not all(isinstance(x, IntImm) for x in operands):
            return None
        if not operands[0].dtype.is_bool and not is_index(operands[0]):
            return None
        try:
            folded = builder(*operands)
        except ZeroDivisionError:
            return None
        return folded if isinstance(folded, IntImm) else None

    # -- normal forms, by class -------------------------------------------------------------------

    def form_product(self, e: Any) -> PrimExpr | None:
        """A constant factor goes to the outside."""
        if not is_index(e):
            return None
        for x, y in ((e.a, e.b), (e.b, e.a)):
            form = form_of(x)
            if len(form[0]) == 1 and form[1] == 0:
                ((t, c),) = form[0].items()
                if c != 1:
                    # A constant factor goes to the outside.
                    low, high = int_range(e.dtype)
                    product = make.mul(t, y) if x is e.a else make.mul(y, t)
                    return make.mul(product, IntImm(e.dtype, c)) if low <= c <= high else None
            elif not form[0]:
                return canonical_sum(scaled(form_of(y), form[1]) if form[1] else ({}, 0), e.dtype)
        return None

    def form_floordiv(self, e: Any) -> PrimExpr | None:
        """Quotients by constants above zero."""
        if isinstance(e.b, IntImm) and e.b.value > 0 and is_index(e):
            return canonical_floordiv(form_of(e.a), e.b.value, e.dtype, self.ctx)
        return None

    def form_floormod(self, e: Any) -> PrimExpr | None:
        """Remainders of constants above zero."""
        if isinstance(e.b, IntImm) and e.b.value > 0 and is_index(e):
            return canonical_floormod(form_of(e.a), e.b.value, e.dtype, self.ctx)
        return None

    def form_trunc(self, e: Any) -> PrimExpr | None:
        """Division that rounds toward zero, where both roundings agree."""
        if not (isinstance(e.b, IntImm) and e.b.value > 0 and is_index(e)):
            return None
        low = self.ctx.form_bound(form_of(e.a)).low
        if low is None or low < 0:
            return None
        # From zero up both roundings agree.
        floor = (ex.FloorDiv if isinstance(e, ex.Div) else ex.FloorMod)(e.a, e.b)
        new = self.form_floordiv(floor) if isinstance(e, ex.Div) else self.form_floormod(floor)
        return None if new is None or new is floor else new

    def form_extremum(self, e: Any) -> PrimExpr | None:
        """Operands whose order is known; constants on the right."""
        if not is_index(e):
            return None
        gap = plus(form_of(e.a), form_of(e.b), -1)
        smaller, larger = (e.a, e.b) if isinstance(e, ex.Min) else (e.b, e.a)
        if self.ctx.is_nonneg(scaled(gap, -1)):
            return smaller
        if self.ctx.is_nonneg(gap):
            return larger
        # A constant stands on the right.
        return type(e)(e.b, e.a) if isinstance(e.a, IntImm) else None

    def form_comparison(self, e: Any) -> PrimExpr | None:
        """The normal form of a comparison."""
        return canonical_comparison(e, self.ctx) if is_index(e.a) else None

    def form_joined(self, e: Any) -> PrimExpr | None:
        """`and` and `or`: conditions that others decide or imply go."""
        is_and = isinstance(e, ex.And)
        if isinstance(e.a, IntImm) or isinstance(e.b, IntImm):
            return (make.and_ if is_and else make.or_)(e.a, e.b)
        kind: type[ex.LogicExpr] = ex.And if is_and else ex.Or
        parts = joined_parts(e, kind)
        if len(parts) > _JOINED_CONDITIONS:
            return None
        kept: list[PrimExpr] = []
        for part in parts:
            state = self._against(part, kept, is_and)
            if state is None:
                return FALSE if is_and else TRUE
            if state:
                kept = [k for k in kept if not self._makes_needless(part, k, is_and)]
                kept.append(part)
        made = kept[0]
        for part in kept[1:]:
            made = kind(made, part)
        return made

    def _makes_needless(self, part: PrimExpr, other: PrimExpr, is_and: bool) -> bool:
        return implies(part, other, self.ctx) if is_and else implies(other, part, self.ctx)

    def _against(self, part: PrimExpr, kept: list[PrimExpr], is_and: bool) -> bool | None:
        """Whether `part` adds to `kept`; None where together they are certain to fail (`and`) or to hold (`or`)."""
        opposite = negated(part) if isinstance(part, ex.CmpExpr) and is_index(part.a) else None
        for k in kept:
            if self._makes_needless(k, part, is_and):
                return False
            if opposite is not None and (implies(k, opposite, self.ctx) if is_and else implies(opposite, k, self.ctx)):
                return None
        return True

    # -- choices ----------------------------------------------------------------------------------

    def _choice(self, e: Any) -> PrimExpr:
        condition = self._memo[_condition(e)]
        then, otherwise = e.args[1:] if isinstance(e, ex.Call) else (e.true_value, e.false_value)
        if isinstance(condition, IntImm):
            return then if condition.value else otherwise
        then = self._under(condition, then)
        opposite = negated(condition)
        otherwise = self._under(make.not_(condition) if opposite is None else opposite, otherwise)
        if then is otherwise:
            return then
        if isinstance(e, ex.Call):
            old = e.args
            changed = condition is not old[0] or then is not old[1] or otherwise is not old[2]
            return ex.Call(e.dtype, e.op, (condition, then, otherwise)) if changed else e
        made = e.replace(condition=condition, true_value=then, false_value=otherwise)
        return self._noted(made, self._rule(made, (condition, then, otherwise)))

    def _under(self, condition: PrimExpr, branch: PrimExpr) -> PrimExpr:
        if isinstance(branch, _LEAVES) and not (isinstance(branch, Var) and branch.dtype.is_bool):
            return self._leaf(branch)
        if self._nesting >= _NESTED_CONDITIONS or self._budget <= 0:
            return branch
        self._budget -= _CONTEXT_COST
        inner = self.ctx.inner()
        inner.add_condition(condition)
        nested = Simplifier(inner, rules=self._rules, forms=self._forms, budget=self._budget, nesting=self._nesting + 1)
        made = nested.rewrite(branch)
        self._budget = nested._budget
        return made

    # -- others -----------------------------------------------------------------------------------

    def form_not(self, e: Any) -> PrimExpr | None:
        """Negation, by the opposite comparison."""
        if isinstance(e.a, IntImm):
            return make.not_(e.a)
        truth = self.ctx.truths.get(e.a)
        if truth is not None:
            return FALSE if truth else TRUE
        if isinstance(e.a, ex.CmpExpr) and is_index(e.a.a):
            return negated(e.a)
        return self._rule(e, (e.a,))

    def form_cast(self, e: Any) -> PrimExpr | None:
        """Casts of constants and to the same type."""
        if e.value.dtype is e.dtype:
            return e.value
        return make.cast(e.value, e.dtype) if isinstance(e.value, (IntImm, ex.FloatImm)) else None

    def form_call(self, e: Any) -> PrimExpr | None:
        """`likely` of a constant."""
        if isinstance(e.op, ex.Op) and e.op.name == "tir.likely" and isinstance(e.args[0], IntImm):
            return e.args[0]
        return None


def _condition(e: Any) -> PrimExpr:
    return e.args[0] if isinstance(e, ex.Call) else e.condition


_Handler = Callable[[Simplifier, Any], PrimExpr | None]
_FORMS: Final[dict[type[PrimExpr], _Handler]] = {
    ex.Mul: Simplifier.form_product, ex.FloorDiv: Simplifier.form_floordiv, ex.FloorMod: Simplifier.form_floormod,
    ex.Div: Simplifier.form_trunc, ex.Mod: Simplifier.form_trunc,
    ex.Min: Simplifier.form_extremum, ex.Max: Simplifier.form_extremum,
    **dict.fromkeys((ex.EQ, ex.NE, ex.LT, ex.LE, ex.GT, ex.GE), Simplifier.form_comparison),
    ex.And: Simplifier.form_joined, ex.Or: Simplifier.form_joined,
}  # fmt: skip
_OTHERS: Final[dict[type[PrimExpr], _Handler]] = {
    ex.Not: Simplifier.form_not, ex.Cast: Simplifier.form_cast, ex.Call: Simplifier.form_call,
}  # fmt: skip
_FOLDERS: Final[dict[type[PrimExpr], Callable[..., PrimExpr]]] = {
    ex.Add: make.add, ex.Sub: make.sub, ex.Mul: make.mul,
    ex.FloorDiv: make.floordiv, ex.FloorMod: make.floormod, ex.Div: make.truncdiv, ex.Mod: make.truncmod,
    ex.Min: make.min_, ex.Max: make.max_,
}  # fmt: skip
