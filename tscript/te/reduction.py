"""Reductions: combiners, and the check that they may be applied in any order."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import CommReducer, ExprLike, FloatImm, IntImm, IterVar, PrimExpr, Reduce, Var
from tscript.ir.functor import post_order_visit
from tscript.ir.structural import structural_equal
from tscript.te.report import at_user_line

Number = int | float
Combine = Callable[[Any, Any], Any]


class Reducer:
    """What `comm_reducer` makes: call it with `axis=` for a reduction, or with several expressions to fold them.

    `red(expr, axis, where=None, init=None)` combines `expr` over `axis` (an axis or a list of them), over
    those points only where `where` holds, beginning with `init` instead of the identity. With several
    values, `expr`, `init` are tuples and the result is a tuple.
    """

    def __init__(self, fcombine: Combine, fidentity: Callable[..., Any], name: str) -> None:
        self.fcombine = fcombine
        self.fidentity = fidentity
        self.name = name
        self.__name__ = name

    def __call__(
        self,
        expr: Any,
        *more: Any,
        axis: IterVar | Sequence[IterVar] | None = None,
        where: ExprLike | None = None,
        init: Any = None,
    ) -> Any:
        if axis is None and more and all(_is_axis(m) for m in more[:1]):
            axis, more = more[0], more[1:]
        if axis is None:
            return self._fold((expr, *more), where, init)
        if more:
            where = more[0] if where is None else where
            init = more[1] if len(more) > 1 and init is None else init
        return self._reduce(expr, axis, where, init)

    def _fold(self, values: tuple[Any, ...], where: Any, init: Any) -> Any:
        if where is not None or init is not None:
            raise ValueError(f"{self.name} of plain expressions takes no where= and no init=; give an axis")
        result = values[0]
        for v in values[1:]:
            result = self.fcombine(result, v)
        return result

    def _reduce(self, expr: Any, axis: Any, where: Any, init: Any) -> Any:
        source = tuple(make.convert(e) for e in (expr if isinstance(expr, (tuple, list)) else (expr,)))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        for a in axes:  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(a, IterVar):
                raise TypeError(f"{self.name} reduces over te.reduce_axis, not over {a!r}")
            if a.iter_type != IterVar.CommReduce:
                raise ValueError(f"{self.name} reduces over te.reduce_axis; `{a.var.name}` is a data axis")
        if len({id(a) for a in axes}) != len(axes):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            raise ValueError(f"{self.name} names an axis twice")
        combiner = self.combiner(tuple(e.dtype for e in source), isinstance(expr, (tuple, list)))
        _remember(self.name, combiner)
        condition = make.const(True) if where is None else make.convert(where)
        if not condition.dtype.is_bool:
            raise TypeError(f"where= of {self.name} is a condition, not {condition.dtype!s}")
        start = self._start(init, source)
        self._require_outside(start, axes)  # pyright: ignore[reportUnknownArgumentType]
        made = [Reduce(combiner, source, start, axes, condition, i) for i in range(len(source))]  # pyright: ignore[reportUnknownArgumentType]
        return tuple(made) if isinstance(expr, (tuple, list)) else made[0]

    def _start(self, init: Any, source: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        if init is None:
            return ()
        values: tuple[Any, ...] = tuple(init) if isinstance(init, (tuple, list)) else (init,)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if len(values) != len(source):
            raise ValueError(f"init= of {self.name} has {len(values)} values for {len(source)} sources")
        result: list[PrimExpr] = []
        for v, s in zip(values, source, strict=True):
            e = (
                v
                if isinstance(v, PrimExpr)
                else make.const(v, s.dtype)
                if isinstance(v, (int, float))
                else make.convert(v)
            )
            if e.dtype is not s.dtype:
                raise TypeError(f"init= of {self.name} is {e.dtype!s} but the source is {s.dtype!s}")
            result.append(e)
        return tuple(result)

    def _require_outside(self, start: Sequence[PrimExpr], axes: Sequence[IterVar]) -> None:
        """Raise ValueError where an initial value depends on the axes that run only after it is set."""
        inner = {a.var: None for a in axes}

        def look(node: object) -> None:
            if isinstance(node, Var) and node in inner:
                raise ValueError(f"init= of {self.name} depends on the axis {node.name} that it reduces over")

        for e in start:
            post_order_visit(e, look)

    def combiner(self, dtypes: tuple[DataType, ...], as_tuple: bool) -> CommReducer:
        """The combination of values of these types; as tuples, or as single values. ScriptError for what is none."""
        first, second = [*inspect.signature(self.fcombine).parameters, "x", "y"][:2]
        count = len(dtypes)
        suffix = [""] if count == 1 else [f"_{i}" for i in range(count)]
        lhs = tuple(Var(first + s, d) for s, d in zip(suffix, dtypes, strict=True))
        rhs = tuple(Var(second + s, d) for s, d in zip(suffix, dtypes, strict=True))
        with at_user_line(self.fcombine, f"in the combiner of {self.name}"):
            result = self.fcombine(lhs, rhs) if as_tuple else self.fcombine(lhs[0], rhs[0])
        with at_user_line(self.fidentity, f"in the identity of {self.name}"):
            identity = self.fidentity(*dtypes)
        results = _tuple_of(result)
        identities = _tuple_of(identity)
        if len(results) != count or len(identities) != count:
            raise ValueError(
                f"{self.name} combines {count} values, but its functions return {len(results)} and {len(identities)}"
            )
        made = CommReducer(lhs, rhs, results, identities)
        for r, i, d in zip(results, identities, dtypes, strict=True):
            if r.dtype is not d or i.dtype is not d:
                raise TypeError(f"{self.name} of {d!s} combines to {r.dtype!s}, with an identity of type {i.dtype!s}")
        with at_user_line(self.fcombine, "not a reduction"):
            require_commutative(made, self.name)
        with at_user_line(self.fidentity, "not a reduction"):
            require_identity(made, self.name)
        return made


def _is_axis(value: Any) -> bool:
    return isinstance(value, IterVar) or (
        isinstance(value, (list, tuple)) and any(isinstance(v, IterVar) for v in value)  # pyright: ignore[reportUnknownVariableType]
    )  # pyright: ignore[reportUnknownVariableType]


def _tuple_of(value: Any) -> tuple[PrimExpr, ...]:
    values: tuple[Any, ...] = tuple(value) if isinstance(value, (tuple, list)) else (value,)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return tuple(make.convert(v) for v in values)


def comm_reducer(
    fcombine: Combine, fidentity: Callable[[Any], Any] | Callable[..., Any], name: str = "reduce"
) -> Reducer:
    """A reduction by `fcombine`, which must be associative and commutative, from `fidentity(dtype)` on.

    For several values at once, `fcombine` takes and returns tuples and `fidentity` takes all types. A
    combiner that is seen, on small numbers, to depend on the order is refused (ScriptError) when used.

    >>> prod = comm_reducer(lambda a, b: a * b, lambda t: make.const(1, t), name="prod")
    >>> prod(make.const(3), make.const(4)).value
    12
    """
    return Reducer(fcombine, fidentity, name)


USED: dict[tuple[DataType, ...], list[tuple[str, CommReducer]]] = {}
"""The combinations that reductions were made of, by the types of their values, with their names."""


def _remember(name: str, combiner: CommReducer) -> None:
    """Keep a combination, so that a schedule knows the loops made from it as a reduction."""
    known = USED.setdefault(tuple(v.dtype for v in combiner.lhs), [])
    if not any(structural_equal(combiner, c) for _, c in known):
        known.append((name, combiner))


def min_value(dtype: str) -> PrimExpr:
    """The smallest value of a type: minus infinity for floats that have it."""
    kind = DataType(dtype)
    if kind.is_float:
        lowest = semantics.round_float(kind, float("-inf"))
        return make.const(lowest if lowest == lowest else -448.0 if kind.code == "float8_e4m3fn" else -6.0, kind)
    return IntImm(kind, int_range(kind)[0])


def max_value(dtype: str) -> PrimExpr:
    """The largest value of a type: infinity for floats that have it."""
    kind = DataType(dtype)
    if kind.is_float:
        highest = semantics.round_float(kind, float("inf"))
        return make.const(highest if highest == highest else 448.0 if kind.code == "float8_e4m3fn" else 6.0, kind)
    return IntImm(kind, int_range(kind)[1])


def _add(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    return make.add(x, y)


def _mul(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    return make.mul(x, y)


def _min(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    return make.min_(x, y)


def _max(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    return make.max_(x, y)


def _zero(dtype: str) -> PrimExpr:
    return make.const(0, dtype)


def _one(dtype: str) -> PrimExpr:
    return make.const(1, dtype)


sum = comm_reducer(_add, _zero, name="sum")
prod = comm_reducer(_mul, _one, name="prod")
min = comm_reducer(_min, max_value, name="min")
max = comm_reducer(_max, min_value, name="max")


# -- is it a reduction? -----------------------------------------------------------------------------


def require_commutative(reducer: CommReducer, name: str) -> None:
    """Raise ValueError when small distinct numbers show that the order of combination matters.

    Ties are not tried: an argmax may keep either of two equal maxima. What cannot be evaluated passes.
    """
    dtypes = [v.dtype for v in reducer.lhs]
    if any(not (d.is_float or d.is_integer or d.is_bool) for d in dtypes):
        return
    samples = [tuple(_sample(d, i, k) for i, d in enumerate(dtypes)) for k in range(4)]
    try:
        for x, y in itertools.permutations(samples, 2):
            if combine(reducer, x, y) != combine(reducer, y, x):
                raise _OrderMatters(x, y)
        for x, y, z in itertools.permutations(samples, 3):
            if combine(reducer, combine(reducer, x, y), z) != combine(reducer, x, combine(reducer, y, z)):
                raise _OrderMatters(x, y, z)
    except _Unknown:
        return
    except _OrderMatters as found:
        raise ValueError(
            f"`{name}` depends on the order of its operands: combining {found} one way or the other gives different "
            "results, and a reduction may use either"
        ) from None


def require_identity(reducer: CommReducer, name: str) -> None:
    """Raise ValueError when combining small numbers with the identity changes them. What cannot be evaluated passes."""
    dtypes = [v.dtype for v in reducer.lhs]
    try:
        identity = tuple(_evaluate(e, {}) for e in reducer.identity_element)
        for k in range(4):
            x = tuple(_sample(d, i, k) for i, d in enumerate(dtypes))
            got = combine(reducer, identity, x)
            if got != x:
                start, value, result = (str(v[0] if len(v) == 1 else v) for v in (identity, x, got))
                raise ValueError(
                    f"`{name}` starts from {start}, which is no identity of it: combined with {value} it gives "
                    f"{result}; to start from another value, pass init= to the reduction"
                )
    except _Unknown:
        return


class _Unknown(Exception):
    pass


class _OrderMatters(Exception):
    def __init__(self, *values: tuple[Number, ...]) -> None:
        super().__init__(" and ".join(str(v[0] if len(v) == 1 else v) for v in values))


def _sample(dtype: DataType, position: int, k: int) -> Number:
    if dtype.is_bool:
        return (k + position) % 2
    # Powers of two are exact in every float type, and their products stay small.
    value = (1, 2, 4, 8)[(k + position) % 4]
    return float(value) if dtype.is_float else value


def value_of(e: PrimExpr) -> Number | None:
    """The number that an expression without variables and memory is, computed as a program would; None if unknown."""
    try:
        return _evaluate(e, {})
    except _Unknown:
        return None


def combine(reducer: CommReducer, x: tuple[Number, ...], y: tuple[Number, ...]) -> tuple[Number, ...]:
    """The combination of two tuples of numbers."""
    env: dict[Var, Number] = dict(zip((*reducer.lhs, *reducer.rhs), (*x, *y), strict=True))
    return tuple(_evaluate(r, env) for r in reducer.result)


def _evaluate(e: PrimExpr, env: dict[Var, Number]) -> Number:
    match e:
        case ex.Var() if e in env:
            return env[e]
        case IntImm() | FloatImm():
            return make.rounded(e)
        case ex.ArithExpr():
            return semantics.arith(type(e).__name__, e.dtype, _evaluate(e.a, env), _evaluate(e.b, env))
        case ex.CmpExpr():
            return int(semantics.COMPARE[type(e).__name__](_evaluate(e.a, env), _evaluate(e.b, env)))
        case ex.And():
            return int(bool(_evaluate(e.a, env)) and bool(_evaluate(e.b, env)))
        case ex.Or():
            return int(bool(_evaluate(e.a, env)) or bool(_evaluate(e.b, env)))
        case ex.Not():
            return int(not _evaluate(e.a, env))
        case ex.Select():
            return _evaluate(e.true_value if _evaluate(e.condition, env) else e.false_value, env)
        case ex.Cast():
            return semantics.convert_value(e.value.dtype, e.dtype, _evaluate(e.value, env))
        case _:
            raise _Unknown
