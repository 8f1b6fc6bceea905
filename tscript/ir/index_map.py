"""Index maps: from one index space to another, as layouts of buffers and of loop nests are given.

A map is inverted by reading its results as numbers in mixed radix (see `digits`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tscript.ir import construct as c
from tscript.ir import expr as ex
from tscript.ir.base import Node
from tscript.ir.digits import Form, Forms, invert
from tscript.ir.dtype import INT64, DataType
from tscript.ir.expr import ExprLike, IntImm, PrimExpr, Range, Var
from tscript.ir.functor import DEFINITIONS, NODE_CLASSES, post_order_visit
from tscript.ir.linear import difference
from tscript.ir.occurrences import variables
from tscript.support.wording import kind_of

_BUILD: Final[dict[type[PrimExpr], Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {
    ex.Add: c.add, ex.Sub: c.sub, ex.Mul: c.mul, ex.FloorDiv: c.floordiv, ex.FloorMod: c.floormod, ex.Div: c.truncdiv,
    ex.Mod: c.truncmod, ex.Min: c.min_, ex.Max: c.max_, ex.And: c.and_, ex.Or: c.or_,
}  # fmt: skip

_BITS: Final[dict[str, Callable[[Any, Any], PrimExpr]]] = {
    "tir.bitwise_and": lambda a, b: a & b, "tir.bitwise_or": lambda a, b: a | b,
    "tir.bitwise_xor": lambda a, b: a ^ b, "tir.shift_left": lambda a, b: a << b,
    "tir.shift_right": lambda a, b: a >> b,
}  # fmt: skip


class _Separator:
    """The mark between groups of axes in the result of a mapping function."""

    def __repr__(self) -> str:
        return "IndexMap.AXIS_SEPARATOR"


class IndexMap(Node):
    """`final_indices` in terms of `initial_indices`; `inverse_index_map` where the user gave one.

    >>> tile = IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    >>> [int(e) for e in tile.map_shape([16, 8])]
    [4, 8, 4]
    """

    initial_indices: tuple[Var, ...]
    final_indices: tuple[PrimExpr, ...]
    inverse_index_map: IndexMap | None = None

    AXIS_SEPARATOR: ClassVar[_Separator] = _Separator()

    def _check(self) -> None:
        for v in self.initial_indices:
            if not isinstance(v, Var) or not v.dtype.is_integer or v.dtype.lanes != 1:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError("the initial indices of an index map are integer variables")
        for e in self.final_indices:
            # Maps to indices give integers; the value to pad with, as a function of indices, may be of any type.
            if not isinstance(e, PrimExpr):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError("the results of an index map are expressions")

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Callable[..., Any] | IndexMap | None = None,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """The map that a Python function of indices describes; `ndim` counts the indices when it takes `*args`.

        The function returns one expression or a sequence of them. Raises ValueError where the number of
        indices is not known, or for an axis separator (see `from_func_with_separators`).
        """
        made, separators = IndexMap.from_func_with_separators(mapping_function, ndim, inverse_index_map, index_dtype)
        if separators:
            raise ValueError(
                "this index map contains IndexMap.AXIS_SEPARATOR; use IndexMap.from_func_with_separators for such maps"
            )
        return made

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Callable[..., Any] | IndexMap | None = None,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """The map, and the positions in its result before which an axis separator stood."""
        initial = [Var(n, index_dtype) for n in _parameter_names(mapping_function, ndim)]
        final: list[PrimExpr] = []
        separators: list[int] = []
        for item in _as_sequence(mapping_function(*initial)):
            if item is IndexMap.AXIS_SEPARATOR:
                separators.append(len(final))
                continue
            value = c.convert(item)
            final.append(IntImm(index_dtype, value.value) if isinstance(value, IntImm) else value)
        inverse = inverse_index_map
        if inverse is not None and not isinstance(inverse, IndexMap):
            inverse = IndexMap.from_func(inverse, len(final), None, index_dtype)
        return IndexMap(tuple(initial), tuple(final), inverse), separators

    def map_indices(self, indices: Sequence[ExprLike]) -> list[PrimExpr]:
        """The results for these indices, in the type of the indices.

        Raises ValueError for a wrong number of indices.
        """
        self._require_arity(len(indices), "indices")
        values = [v.var if isinstance(v, ex.IterVar) else c.convert(v) for v in indices]
        kind = self._type_of(values)
        env = dict(zip(self.initial_indices, values, strict=True))
        return [_typed(_evaluate(e, env), kind) for e in self.final_indices]

    def free_variables(self) -> list[Var]:
        """The variables of the results, and of the inverse, that are no indices.

        >>> n = Var("n", "int32")
        >>> IndexMap.from_func(lambda i: [i // n, i % n], index_dtype="int32").free_variables()
        [n]
        """
        found = [v for v in variables(*self.final_indices) if v not in self.initial_indices]
        return found if self.inverse_index_map is None else [*found, *self.inverse_index_map.free_variables()]

    def with_values(self, values: Mapping[Var, PrimExpr]) -> IndexMap:
        """The same map with other expressions in the place of free variables.

        >>> n = Var("n", "int32")
        >>> IndexMap.from_func(lambda i: [i // n, i % n], index_dtype="int32").with_values({n: IntImm("int32", 4)})
        T.index_map(lambda i: (i // 4, i % 4))
        """
        env = dict(values)
        back = self.inverse_index_map
        results = tuple(_evaluate(e, env) for e in self.final_indices)
        return IndexMap(self.initial_indices, results, None if back is None else back.with_values(values))

    def map_shape(self, shape: Sequence[ExprLike]) -> list[PrimExpr]:
        """Extents of the results when each index runs from 0 to its extent in `shape`.

        Raises ValueError where a result can be negative, or where its bound cannot be found.
        """
        self._require_arity(len(shape), "extents")
        extents = [c.convert(s) for s in shape]
        env = {
            v: _Interval(c.const(0, s.dtype), c.sub(s, 1)) for v, s in zip(self.initial_indices, extents, strict=True)
        }
        kind = self._type_of(extents)
        forms = Forms(dict(zip(self.initial_indices, extents, strict=True)))
        result: list[PrimExpr] = []
        for k, e in enumerate(self.final_indices):
            form = forms.find(e)
            exact = None if form is None else form.bounds()
            if exact is not None:
                low, high = c.const(exact[0], kind), c.const(exact[1], kind)
            else:
                bound = _bounds(e, env)
                low, high = bound.low, bound.high
            if isinstance(low, IntImm) and low.value < 0:
                raise ValueError(f"result {k} of the index map can be negative: its smallest value is {low.value}")
            result.append(_typed(c.convert(_plus_one(high)), kind))
        return result

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """Whether both maps give equal results for all indices, as far as sums, products and constants show it."""
        if len(self.initial_indices) != len(other.initial_indices) or len(self.final_indices) != len(
            other.final_indices
        ):
            return False
        shared: list[PrimExpr] = [Var(v.name, v.dtype) for v in self.initial_indices]
        pairs = zip(self.map_indices(shared), other.map_indices(shared), strict=True)
        return all(x is y or _key(x) == _key(y) or difference(x, y) == ({}, 0) for x, y in pairs)

    def inverse(self, shape: Sequence[ExprLike | Range]) -> IndexMap:
        """The map back, for indices that run over `shape` (extents, or ranges that start at 0).

        Raises ValueError where the map is not one-to-one onto the shape `map_shape(shape)`, or is not made
        of splits, fusions, reversals and permutations of the indices.
        """
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        made, padding = self._inverted(shape)
        if padding is not None:
            raise ValueError(
                "the index map does not reach every point of its result space, so it has no inverse; "
                "non_surjective_inverse gives one together with the condition for the points not reached"
            )
        return made

    def non_surjective_inverse(self, shape: Sequence[ExprLike | Range]) -> tuple[IndexMap, PrimExpr]:
        """The map back, and the condition, on its indices, under which a point is reached from none (padding)."""
        made, padding = self._inverted(shape)
        return made, c.const(False) if padding is None else padding

    def _inverted(self, shape: Sequence[ExprLike | Range]) -> tuple[IndexMap, PrimExpr | None]:
        self._require_arity(len(shape), "extents")
        extents = [_extent(s) for s in shape]
        forms = Forms(dict(zip(self.initial_indices, extents, strict=True)))
        parts: list[Form] = []
        for k, e in enumerate(self.final_indices):
            form = forms.find(e)
            if form is None:
                raise ValueError(
                    f"result {k} of the index map is not made of splits, fusions, reversals and permutations of the "
                    "indices, so its inverse cannot be derived; give it as inverse_index_map"
                )
            parts.append(form)
        dtype = self.initial_indices[0].dtype if self.initial_indices else INT64
        results = [Var(f"axis{i}", dtype) for i in range(len(parts))]
        solved, padding = invert(self.initial_indices, forms, results, parts)
        condition: PrimExpr | None = None
        for p in padding:
            condition = p if condition is None else c.or_(condition, p)
        return IndexMap(tuple(results), tuple(solved)), condition

    def _type_of(self, indices: Sequence[PrimExpr]) -> DataType:
        """The widest type among indices; without any, that of the results."""
        found = [e.dtype for e in indices] or [e.dtype for e in self.final_indices] or [INT64]
        return max(found, key=lambda t: t.bits)

    def _require_arity(self, count: int, what: str) -> None:
        if count != len(self.initial_indices):
            raise ValueError(f"the index map takes {len(self.initial_indices)} {what}, not {count}")


NODE_CLASSES["IndexMap"] = IndexMap
DEFINITIONS[IndexMap] = ("initial_indices",)


def _parameter_names(function: Callable[..., Any], ndim: int | None) -> list[str]:
    names: list[str] = []
    variadic: str | None = None
    for p in inspect.signature(function).parameters.values():
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
        elif p.kind is p.VAR_POSITIONAL:
            variadic = p.name
        else:
            raise ValueError(f"the function of an index map takes no keyword argument such as {p.name!r}")
    if variadic is not None:
        if ndim is None:
            raise ValueError(f"the function of this index map takes *{variadic}: tell how many indices with ndim=")
        names += [f"{variadic}_{i}" for i in range(ndim - len(names))]
    elif ndim is not None and ndim != len(names):
        raise ValueError(f"the function of this index map takes {len(names)} indices, not {ndim}")
    return names


def _as_sequence(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        return value  # pyright: ignore[reportUnknownVariableType]
    return [value]


def _extent(value: ExprLike | Range) -> PrimExpr:
    if isinstance(value, Range):
        if not c.is_const_int(value.min, 0):
            raise ValueError("an index map is inverted over ranges that start at 0")
        return value.extent
    return c.convert(value)


def _typed(e: PrimExpr, kind: str) -> PrimExpr:
    return c.cast(e, kind) if isinstance(e, IntImm) else e


def _evaluate(root: PrimExpr, env: dict[Var, PrimExpr]) -> PrimExpr:
    """`root` with variables replaced, built anew so that constants follow the type of what stands beside them."""
    done: dict[PrimExpr, PrimExpr] = {}

    def leave(e: Any) -> None:
        if not isinstance(e, PrimExpr):
            return
        if isinstance(e, Var):
            done[e] = env.get(e, e)
        elif isinstance(e, ex.BinaryExpr):
            x, y = _follow(e.a, e.b, done), _follow(e.b, e.a, done)
            build = _BUILD.get(type(e))
            done[e] = build(x, y) if build is not None else c.compare(type(e), x, y)  # pyright: ignore[reportArgumentType]
        elif isinstance(e, ex.Cast):
            done[e] = c.cast(done[e.value], e.dtype)
        elif isinstance(e, ex.Call) and isinstance(e.op, ex.Op) and e.op.name in _BITS:
            x, y = e.args
            done[e] = _BITS[e.op.name](_follow(x, y, done), _follow(y, x, done))
        elif isinstance(e, (ex.Select, ex.Call)):
            done[e] = _rebuilt(e, done)
        else:
            done[e] = e if all(done.get(x, x) is x for x in _operands(e)) else _rebuilt(e, done)

    post_order_visit(root, leave)
    return done[root]


def _operands(e: PrimExpr) -> list[PrimExpr]:
    found: list[PrimExpr] = []
    for f in type(e)._fields:  # pyright: ignore[reportPrivateUsage]
        value = getattr(e, f)
        found.extend(v for v in (value if type(value) is tuple else (value,)) if isinstance(v, PrimExpr))  # pyright: ignore[reportUnknownVariableType]
    return found


def _rebuilt(e: PrimExpr, done: dict[PrimExpr, PrimExpr]) -> PrimExpr:
    def new(old: PrimExpr) -> PrimExpr:
        made = done.get(old, old)
        return made if made.dtype is old.dtype else c.cast(made, old.dtype)

    changes: dict[str, Any] = {}
    for f in type(e)._fields:  # pyright: ignore[reportPrivateUsage]
        value: Any = getattr(e, f)
        if isinstance(value, PrimExpr):
            changes[f] = new(value)
        elif type(value) is tuple:
            changes[f] = tuple(new(v) if isinstance(v, PrimExpr) else v for v in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return e.replace(**changes)


def _follow(e: PrimExpr, beside: PrimExpr, done: dict[PrimExpr, PrimExpr]) -> PrimExpr:
    x, other = done[e], done[beside]
    if isinstance(x, IntImm) and not isinstance(other, IntImm) and x.dtype is not other.dtype:
        return c.const(x.value, other.dtype)
    return x


# -- bounds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Interval:
    """Smallest and largest value, both attained or beyond."""

    low: PrimExpr
    high: PrimExpr


def _plus_one(e: PrimExpr) -> PrimExpr:
    """`e + 1`, which undoes a `- 1` and turns `(n - 1) // c + 1` into the usual `(n + c - 1) // c`."""
    if isinstance(e, ex.FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0:
        return c.floordiv(c.simple_sub(e.a, c.const(-e.b.value, e.a.dtype)), e.b)
    return c.simple_sub(e, c.const(-1, e.dtype)) if e.dtype.is_int else c.add(e, 1)


def _bounds(root: PrimExpr, env: dict[Var, _Interval]) -> _Interval:
    done: dict[PrimExpr, _Interval] = {}

    def leave(e: Any) -> None:
        if isinstance(e, PrimExpr):
            done[e] = _bounds_of(e, done, env)

    post_order_visit(root, leave)
    return done[root]


def _bounds_of(e: PrimExpr, done: dict[PrimExpr, _Interval], env: dict[Var, _Interval]) -> _Interval:
    match e:
        case Var():
            return env.get(e) or _Interval(e, e)
        case IntImm():
            return _Interval(e, e)
        case ex.Add():
            x, y = _pair(e, done)
            return _Interval(c.add(x.low, y.low), c.add(x.high, y.high))
        case ex.Sub():
            x, y = _pair(e, done)
            return _Interval(c.sub(x.low, y.high), c.sub(x.high, y.low))
        case ex.Mul(a=a, b=IntImm(value=k)) | ex.Mul(a=IntImm(value=k), b=a):
            x = done[a]
            ends = [c.mul(x.low, k), c.mul(x.high, k)]
            return _Interval(*(ends if k >= 0 else ends[::-1]))
        case ex.FloorDiv(a=a, b=IntImm(value=k)) if k > 0:
            x = done[a]
            return _Interval(c.floordiv(x.low, k), c.floordiv(x.high, k))
        case ex.FloorMod(a=a, b=IntImm(value=k)) if k > 0:
            x = done[a]
            if isinstance(x.low, IntImm) and isinstance(x.high, IntImm) and x.low.value // k == x.high.value // k:
                return _Interval(c.floormod(x.low, k), c.floormod(x.high, k))
            return _Interval(c.const(0, x.high.dtype), c.const(k - 1, x.high.dtype))
        case ex.FloorMod(a=a, b=b) if done[b].low is done[b].high:
            return _Interval(c.const(0, b.dtype), c.sub(done[b].high, 1))
        case ex.Min():
            x, y = _pair(e, done)
            return _Interval(c.min_(x.low, y.low), c.min_(x.high, y.high))
        case ex.Max():
            x, y = _pair(e, done)
            return _Interval(c.max_(x.low, y.low), c.max_(x.high, y.high))
        case ex.Cast(value=value) if e.dtype.is_integer and value.dtype.is_integer:
            return done[value]
        case _:
            raise ValueError(f"no bound can be found for {kind_of(e)} in an index map; use sums, // and % of constants")


def _pair(e: ex.BinaryExpr, done: dict[PrimExpr, _Interval]) -> tuple[_Interval, _Interval]:
    return done[e.a], done[e.b]


def _key(e: PrimExpr) -> Any:
    """A form in which the order and grouping of sums do not show."""
    from_terms, constant = ({}, 0) if not e.dtype.is_int else _linear(e)
    if not from_terms and isinstance(e, IntImm):
        return constant
    if len(from_terms) == 1 and constant == 0 and e in from_terms:
        if isinstance(e, (ex.FloorDiv, ex.FloorMod, ex.Min, ex.Max)):
            return type(e).__name__, _key(e.a), _key(e.b)
        return e
    return frozenset((_key(t), k) for t, k in from_terms.items()), constant


def _linear(e: PrimExpr) -> tuple[dict[PrimExpr, int], int]:
    return difference(e, IntImm(e.dtype, 0))
