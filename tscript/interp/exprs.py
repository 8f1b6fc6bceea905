"""Translation of expressions, scalars and vectors.

Vectors are Python lists; an operator on vectors is a comprehension over the operator on scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tscript.interp import scalar
from tscript.interp.access import load
from tscript.interp.emit import EXPRESSIONS, FIXED, VECTORS, Gen, Val, handles, number, paren
from tscript.interp.scalar import BINARY, ScalarOp, finish
from tscript.ir import expr as ex
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import Call, Op, PrimExpr, Var
from tscript.ir.functor import children
from tscript.support.errors import InterpError
from tscript.support.wording import kind_of

_DEEP = 60
_LONG = 1000
"""Length of source from which it gets a name: CPython's parser nests parentheses up to 200 times."""


def expr(g: Gen, e: PrimExpr) -> Val:
    """The exact value of `e`, in the innermost scope."""
    return _memoized(g, e, lambda: finish(g, _translate(g, e)))


def unrounded(g: Gen, e: PrimExpr) -> Val:
    """The value of `e`, for a use that rounds it to its own type anyway."""
    if g.sharing.get(e, 1) > 1:
        return expr(g, e)
    return _translate(g, e)


def _translate(g: Gen, e: PrimExpr) -> Val:
    table = EXPRESSIONS if e.dtype.lanes == 1 else VECTORS
    handler = table.get(type(e))
    if handler is None:
        raise InterpError(f"{kind_of(e)} of type {e.dtype!s} cannot be run")
    return handler(g, e)


def _memoized(g: Gen, e: PrimExpr, make: Callable[[], Val]) -> Val:
    if isinstance(e, (Var, ex.IntImm, ex.FloatImm)):
        return make()
    for scope in reversed(g.stack):
        found = scope.memo.get(e)
        if found is not None:
            return found
    made = make()
    # With effects around, what is written twice happens twice.
    shared = g.sharing.get(e, 1) > 1 and not g.strict
    if (shared or g.strict) and not g.inline and not made.simple:
        made = g.hold(made)
    if len(made.code) > _LONG and not g.inline:
        made = g.hold(made)
    if shared:
        g.stack[-1].memo[e] = made
    return made


def root(g: Gen, e: PrimExpr, take: Callable[[Gen, PrimExpr], Val] = expr) -> Val:
    """The value of a whole expression of a statement.

    Parts that occur more than once are computed once; very deep expressions are cut in pieces, since
    neither this translation nor Python's own parser may nest without end.
    """
    order = _post_order(e)
    before = g.sharing, g.strict
    memo = dict(g.stack[-1].memo)
    g.sharing = {}
    for node in order:
        for c in children(node):
            if isinstance(c, PrimExpr):
                g.sharing[c] = g.sharing.get(c, 0) + 1
    g.strict = g.strict or any(_has_effect(n) for n in order)
    height: dict[PrimExpr, int] = {}
    for node in order:
        h = 1 + max((height.get(c, 0) for c in children(node) if isinstance(c, PrimExpr)), default=0)
        height[node] = h
        if h % _DEEP == 0 and node is not e:
            g.stack[-1].memo[node] = g.hold(expr(g, node))
    result = take(g, e)
    g.sharing, g.strict = before
    g.stack[-1].memo = memo
    return result


def _has_effect(e: PrimExpr) -> bool:
    if not isinstance(e, Call):
        return False
    return not isinstance(e.op, Op) or e.op.effect == "update" or e.op.name == "tir.call_pure_extern"


def _post_order(e: PrimExpr) -> list[PrimExpr]:
    """Every expression below `e` once, children first; lazily evaluated ones are left to their parent."""
    order: list[PrimExpr] = []
    seen: set[PrimExpr] = set()
    stack: list[tuple[PrimExpr, bool]] = [(e, False)]
    while stack:
        n, done = stack.pop()
        if done:
            order.append(n)
        elif n not in seen:
            seen.add(n)
            stack.append((n, True))
            if isinstance(n, ex.Let) or (
                isinstance(n, Call) and isinstance(n.op, Op) and n.op.name == "tir.if_then_else"
            ):
                eager = n.value if isinstance(n, ex.Let) else n.args[0]
                stack.append((eager, False))
                continue
            stack.extend((c, False) for c in reversed(list(children(n))) if isinstance(c, PrimExpr))
    return order


# -- leaves ---------------------------------------------------------------------------------------


@handles(EXPRESSIONS, Var, ex.SizeVar)
def _var(g: Gen, e: Var) -> Val:
    found = g.env.get(e)
    if found is not None:
        return found
    if e in g.pointers:
        return Val(g.pointers[e], True, level=g.pointer_levels[e])
    raise InterpError(f"variable {e.name} is used but nothing gives it a value")


@handles(VECTORS, Var)
def _vector_var(g: Gen, e: Var) -> Val:
    return _var(g, e)


@handles(EXPRESSIONS, ex.IntImm)
def _int(g: Gen, e: ex.IntImm) -> Val:
    return number(e.value)


@handles(EXPRESSIONS, ex.FloatImm)
def _float(g: Gen, e: ex.FloatImm) -> Val:
    return Val(scalar.float_code(g, semantics_round(e)), True, level=0)


def semantics_round(e: ex.FloatImm) -> float:
    """The number a float constant stands for."""
    return scalar.semantics.round_float(e.dtype, e.value)


@handles(EXPRESSIONS, ex.StringImm)
def _string(g: Gen, e: ex.StringImm) -> Val:
    return Val(repr(e.value), True, level=0)


# -- operators ------------------------------------------------------------------------------------


def elementwise(g: Gen, e: PrimExpr, operands: tuple[PrimExpr, ...], kind: DataType, op: ScalarOp) -> Val:
    """`op` on scalar operands, or lane by lane. `kind` is the type of a lane of the first operand."""
    if e.dtype.lanes == 1 and all(o.dtype.lanes == 1 for o in operands):
        return op(g, kind, [expr(g, o) for o in operands])
    lanes: list[Val] = []
    names: list[str] = []
    lists: list[str] = []
    for o in operands:
        if isinstance(o, ex.Broadcast) and o.value.dtype.lanes == 1:
            lanes.append(g.hold(expr(g, o.value)))
        elif o.dtype.lanes == 1:
            lanes.append(g.hold(expr(g, o)))
        else:
            v = g.hold(expr(g, o))
            lists.append(v.code)
            names.append(g.name("x"))
            low, high = (0, 0) if o.dtype.is_float else (v.lo, v.hi)
            lanes.append(Val(names[-1], True, low, high))
    return comprehension(g, e.dtype.lanes, names, lists, lambda: op(g, kind, lanes))


def comprehension(g: Gen, count: int, names: list[str], lists: list[str], lane: Callable[[], Val]) -> Val:
    """A list of `count` lanes, each computed by the source `lane` makes from the loop variables `names`."""
    before, g.inline = g.inline, True
    try:
        v = finish(g, lane())
    finally:
        g.inline = before
    if not names:
        return Val(f"[{v.code}] * {count}", False, v.lo, v.hi)
    source = lists[0] if len(lists) == 1 else f"zip({', '.join(lists)})"
    return Val(f"[{v.code} for {', '.join(names)} in {source}]", False, v.lo, v.hi)


def _binary(g: Gen, e: ex.BinaryExpr) -> Val:
    return elementwise(g, e, (e.a, e.b), e.a.dtype.element, BINARY[type(e)])


for _cls in BINARY:
    EXPRESSIONS[_cls] = VECTORS[_cls] = _binary


@handles(EXPRESSIONS, ex.Not)
@handles(VECTORS, ex.Not)
def _not(g: Gen, e: ex.Not) -> Val:
    return elementwise(g, e, (e.a,), e.a.dtype.element, lambda g, d, a: scalar.flag(f"not {paren(a[0])}"))


@handles(EXPRESSIONS, ex.Cast)
@handles(VECTORS, ex.Cast)
def _cast(g: Gen, e: ex.Cast) -> Val:
    source, target = e.value.dtype.element, e.dtype.element
    return elementwise(g, e, (e.value,), source, lambda g, d, a: scalar.convert(g, source, target, a[0]))


def _choose(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    c, a, b = args[0], g.hold(args[1]), g.hold(args[2])
    return Val(f"{a.code} if {paren(c)} else {b.code}", False, min(a.lo, b.lo), max(a.hi, b.hi))


@handles(EXPRESSIONS, ex.Select)
@handles(VECTORS, ex.Select)
def _select(g: Gen, e: ex.Select) -> Val:
    if e.dtype.lanes > 1 and e.condition.dtype.lanes == 1:
        return _choose(g, e.dtype, [expr(g, e.condition), expr(g, e.true_value), expr(g, e.false_value)])
    return elementwise(g, e, (e.condition, e.true_value, e.false_value), e.dtype.element, _choose)


def lazily(g: Gen, e: PrimExpr, name: str) -> Val:
    """Open a scope, compute `e` there into `name`; the caller pops the scope."""
    v = root(g, e)
    g.line(f"{name} = {v.code}")
    return v


def choose_lazily(g: Gen, condition: PrimExpr, then: PrimExpr, otherwise: PrimExpr) -> Val:
    """One of two values; the other one is not computed."""
    c = expr(g, condition)
    made = g.name("t")
    g.push()
    a = lazily(g, then, made)
    # Lines that the second branch places further out must come before the first one.
    first = g.stack.pop()
    g.push()
    b = lazily(g, otherwise, made)
    second = g.stack.pop()
    g.attach(f"if {c.code}:", first)
    g.attach("else:", second)
    if then.dtype.is_float:
        return Val(made, True)
    return Val(made, True, min(a.lo, b.lo), max(a.hi, b.hi))


@handles(EXPRESSIONS, ex.Let)
@handles(VECTORS, ex.Let)
def _let(g: Gen, e: ex.Let) -> Val:
    bind(g, e.var, expr(g, e.value))
    result = root(g, e.body)
    g.bound.discard(e.var)
    return result


def require_free(g: Gen, var: Var) -> None:
    """Raise InterpError where `var` is bound already; else it is from now on."""
    if var in g.bound:
        # Values are remembered by expression, so a variable may have only one.
        raise InterpError(
            f"the variable {var.name} is bound again inside its own scope; give the inner one a variable of its own"
        )
    g.bound.add(var)


def bind(g: Gen, var: Var, v: Val) -> None:
    """Give `var` the value `v`, evaluated now."""
    require_free(g, var)
    if var.dtype.is_handle:
        name = g.name(var.name)
        g.line(f"{name} = {v.code}")
        g.pointers[var] = name
        g.pointer_levels[var] = g.level
    elif v.simple and v.level != FIXED:
        g.env[var] = v
    else:
        name = g.name(var.name)
        g.line(f"{name} = {v.code}")
        if var.dtype.lanes == 1 and not var.dtype.is_float:
            g.env[var] = g.named(name, v.lo, v.hi)
        else:
            g.env[var] = Val(name, True, v.lo, v.hi, g.level)


@handles(EXPRESSIONS, ex.BufferLoad)
@handles(VECTORS, ex.BufferLoad)
def _load(g: Gen, e: ex.BufferLoad) -> Val:
    predicate = None if e.predicate is None else expr(g, e.predicate)
    return load(g, e.buffer, e.indices, [expr(g, i) for i in e.indices], predicate)


# -- vectors --------------------------------------------------------------------------------------


@handles(VECTORS, ex.Ramp)
def _ramp(g: Gen, e: ex.Ramp) -> Val:
    if e.base.dtype.lanes != 1:
        raise InterpError("a ramp of vectors cannot be run")
    base, stride = g.hold(expr(g, e.base)), g.hold(expr(g, e.stride))
    dtype = e.dtype.element
    lane = g.name("x")
    k = Val(lane, True, 0, e.lanes - 1)
    return comprehension(
        g,
        e.lanes,
        [lane],
        [f"range({e.lanes})"],
        lambda: scalar.add(g, dtype, [base, scalar.mul(g, dtype, [k, stride])]),
    )


@handles(VECTORS, ex.Broadcast)
def _broadcast(g: Gen, e: ex.Broadcast) -> Val:
    v = expr(g, e.value)
    code = f"{paren(v)} * {e.lanes}" if e.value.dtype.lanes > 1 else f"[{v.code}] * {e.lanes}"
    return Val(code, False, v.lo, v.hi)


@handles(EXPRESSIONS, ex.Shuffle)
@handles(VECTORS, ex.Shuffle)
def _shuffle(g: Gen, e: ex.Shuffle) -> Val:
    parts = [expr(g, v) for v in e.vectors]
    pieces = [p.code if v.dtype.lanes == 1 else f"*{paren(p)}" for p, v in zip(parts, e.vectors, strict=True)]
    whole = g.hold(Val(f"[{', '.join(pieces)}]"))
    low, high = min(p.lo for p in parts), max(p.hi for p in parts)
    picks = [int(i) for i in e.indices]  # pyright: ignore[reportArgumentType]
    if e.dtype.lanes == 1:
        return Val(f"{whole.code}[{picks[0]}]", False, low, high)
    return Val(f"[{whole.code}[i] for i in {tuple(picks)}]", False, low, high)


def full_range(dtype: DataType) -> tuple[int, int]:
    """Bounds of any value of `dtype` (0, 0 where there are none to keep)."""
    return int_range(dtype.element) if dtype.is_integer or dtype.is_bool else (0, 0)


def any_value(code: str, dtype: DataType) -> Val:
    """A value of `dtype` of which nothing is known."""
    low, high = full_range(dtype)
    return Val(code, False, low, high)


Translator = Callable[[Gen, Any], Val]
