"""Index maps as arguments of steps: in the index type at hand, checked, inverted; and regions seen through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tscript.analysis.ranges import loop_range, range_bounds
from tscript.arith import Bound, Interval, eval_interval, simplify
from tscript.arith.interval import Domains
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.dtype import INT32, DataType
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Range, Var
from tscript.ir.functor import Rewriter, pre_order_visit, substitute
from tscript.ir.index_map import IndexMap
from tscript.ir.occurrences import variables
from tscript.ir.stmt import Block, BufferRegion, BufferStore, For
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.rewrite import TrackingRewriter
from tscript.schedule.symbols import axis_ranges
from tscript.schedule.trace_text import unique_names
from tscript.support.wording import kind_of

MapLike = IndexMap | Callable[..., Any]

_MOST_POINTS: Final = 1 << 20
"""How large an index space may be for a map to be tried out on all of it."""


def index_dtype(exprs: Sequence[PrimExpr]) -> DataType:
    """The widest type among index expressions; int32 without any."""
    widest = INT32
    for e in exprs:
        if e.dtype.is_int and e.dtype.bits > widest.bits:
            widest = e.dtype
    return widest


@dataclass(frozen=True)
class GivenMap:
    """An index map as an argument: what it means, how it is recorded, and where axis separators stood in it.

    A map may use sampled numbers of the schedule. It is recorded with their handles, so that a replay with other
    numbers follows them, and means what their present values make of it.
    """

    mapping: IndexMap
    recorded: IndexMap
    separators: list[int]


def as_index_map(s: ScheduleCore, given: MapLike, ndim: int, dtype: DataType, block: Block) -> GivenMap:
    """The map from `ndim` indices of type `dtype` that an argument means.

    TypeError for what is neither a function nor a map; refused where it takes another number of indices, where a
    result is no integer, or depends on anything but the indices and sampled numbers.
    """
    separators: list[int] = []
    if isinstance(given, IndexMap):
        found = given
    elif callable(given):
        try:
            found, separators = IndexMap.from_func_with_separators(given, ndim, None, dtype)
        except ValueError as e:
            refuse(f"{e} ({{0}} has {ndim} to be mapped)", block)
    else:
        raise TypeError(f"an index map is a function of indices or an IndexMap, not {kind_of(given)}")
    if len(found.initial_indices) != ndim:
        refuse(f"the index map takes {len(found.initial_indices)} indices, but there are {ndim} here", block)
    known = with_numbers(s, found)
    for e in known.final_indices:
        if not e.dtype.is_integer or e.dtype.lanes != 1:
            refuse(f"the index map gives `{e}`, which is no integer", block)
        require_closed(known, e, block)
    recorded = with_dtype(found, dtype)
    return GivenMap(recorded if known is found else with_dtype(known, dtype), recorded, separators)


def with_numbers(s: ScheduleCore, index_map: IndexMap) -> IndexMap:
    """A map with the present values of sampled numbers in the place of their handles."""
    numbers = [v for v in index_map.free_variables() if isinstance(s.symbols.get(v), int)]
    if not numbers:
        return index_map
    return index_map.with_values({v: IntImm(v.dtype, s.integer(v)) for v in numbers})


def require_closed(index_map: IndexMap, result: PrimExpr, block: Block) -> None:
    """Refuse a result of a map that uses other variables than its indices, or memory."""
    known = dict.fromkeys(index_map.initial_indices)
    for v in variables(result):
        if v not in known:
            refuse(f"the index map uses `{v.name}`, which is none of its indices", block)

    def look(node: object) -> bool:
        if isinstance(node, BufferLoad):
            refuse(f"the index map reads `{node.buffer.name}`; it can use its indices only", block)
        return True

    pre_order_visit(result, look)


def with_dtype(index_map: IndexMap, dtype: DataType) -> IndexMap:
    """The same map of indices of another type, under names that a trace can use."""
    names = unique_names(index_map)
    back = index_map.inverse_index_map
    fresh = tuple(
        v if v.dtype is dtype and v.name == n else Var(n, dtype)
        for v, n in zip(index_map.initial_indices, names, strict=True)
    )
    numbers = index_map.free_variables()
    if numbers:
        results = _mapped_with(index_map, fresh, numbers)
    else:
        results = index_map.map_indices(fresh) if fresh else [make.cast(e, dtype) for e in index_map.final_indices]
    return IndexMap(fresh, tuple(results), None if back is None else with_dtype(back, dtype))


def _mapped_with(index_map: IndexMap, indices: Sequence[Var], numbers: Sequence[Var]) -> list[PrimExpr]:
    """The results for indices of another type than those that the type of sampled numbers was changed to before."""
    uncast = _Uncast(numbers)
    results = tuple(uncast.rewrite(e) for e in index_map.final_indices)
    own = IndexMap((*index_map.initial_indices, *uncast.as_wide), results)
    return own.map_indices([*indices, *uncast.as_wide.values()])


class _Uncast(Rewriter):
    """Puts a variable in the place of a sampled number that was cast; `as_wide` tells which number it stands for."""

    def __init__(self, numbers: Sequence[Var]) -> None:
        super().__init__()
        self.numbers = numbers
        self.as_wide: dict[Var, Var] = {}

    def rewrite_Cast(self, node: ex.Cast) -> PrimExpr:
        """The variable, in the type that the number was cast to."""
        if not isinstance(node.value, Var) or node.value not in self.numbers:
            return self.rewrite_children(node)
        wide = Var(node.value.name, node.dtype)
        self.as_wide[wide] = node.value
        return wide


# -- inversion ------------------------------------------------------------------------------------


@dataclass
class Inverse:
    """What is known of a map over an index space.

    `shape` is the space of its results. `back` gives the indices from the results, where an expression for them is
    known; `padding`, on the indices of `back`, tells results that are reached from nowhere (None: there are none).
    """

    shape: list[PrimExpr]
    back: IndexMap | None
    padding: PrimExpr | None
    has_padding: bool


def invert(index_map: IndexMap, shape: Sequence[PrimExpr], trusted: bool = False) -> Inverse:
    """The inverse of a map over `shape`. ValueError, with the reason, where it is not known to be one-to-one.

    With `trusted`, a map of which nothing is known is taken to be one-to-one without gaps.
    """
    if any(make.is_const_int(s, 0) for s in shape):
        raise ValueError("one of its extents is 0, so there is nothing to be mapped")
    tried = _try_out(index_map, shape)
    try:
        new_shape: list[PrimExpr] = index_map.map_shape(shape)
    except ValueError:
        if tried is None:
            raise
        new_shape = [IntImm(index_dtype(shape), int(r.max()) + 1) for r in tried]
    try:
        back, padding = index_map.replace(inverse_index_map=None).non_surjective_inverse(shape)
    except ValueError as e:
        return _otherwise(index_map, shape, new_shape, tried, str(e), trusted)
    bounds = _bounds_of_space(back.initial_indices, new_shape)
    condition = simplify(padding, bounds)
    none = isinstance(condition, IntImm) and not condition.value
    return Inverse(new_shape, _simplest(back, bounds), None if none else condition, not none)


def _otherwise(
    index_map: IndexMap,
    shape: Sequence[PrimExpr],
    new_shape: list[PrimExpr],
    tried: list[npt.NDArray[np.int64]] | None,
    reason: str,
    trusted: bool,
) -> Inverse:
    """What is known of a map that is not made of digits: by the inverse given with it, or by trying all indices."""
    given = index_map.inverse_index_map
    if given is not None:
        given = _simplest(given, _bounds_of_space(given.initial_indices, new_shape))
        if _undoes(given, index_map, shape) and _undoes(index_map, given, new_shape):
            return Inverse(new_shape, given, None, False)
    if tried is None:
        if trusted:
            return Inverse(new_shape, given, None, False)
        raise ValueError(reason)
    sizes = [int(r.max()) + 1 for r in tried]
    places = np.ravel_multi_index(tuple(r.ravel() for r in tried), sizes) if sizes else np.zeros(tried[0].size)
    if np.unique(places).size != places.size:
        raise ValueError(f"the index map is not one-to-one: {_collision(places, tried[0].shape)}")
    if given is not None and not _agrees(given, tried):
        raise ValueError("the inverse that was given with the index map does not undo it")
    return Inverse(new_shape, given, None, places.size != int(np.prod(sizes)))


def _collision(places: npt.NDArray[Any], shape: tuple[int, ...]) -> str:
    """Two indices of the same image."""
    order = np.argsort(places, kind="stable")
    k = int(np.argmax(places[order][1:] == places[order][:-1]))
    first, second = (tuple(int(x) for x in np.unravel_index(int(order[i]), shape)) for i in (k, k + 1))
    return f"indices {first} and {second} go to the same place"


def _undoes(second: IndexMap, first: IndexMap, shape: Sequence[PrimExpr]) -> bool:
    """Whether `second` after `first` provably gives the indices back."""
    if len(second.initial_indices) != len(first.final_indices):
        return False
    bounds = _bounds_of_space(first.initial_indices, shape)
    results = second.map_indices(list(first.final_indices))
    return len(results) == len(first.initial_indices) and all(
        simplify(r, bounds) is v for r, v in zip(results, first.initial_indices, strict=True)
    )


def _agrees(back: IndexMap, tried: list[npt.NDArray[np.int64]]) -> bool:
    """Whether a map takes results back to the indices they came from, all of them tried."""
    if len(back.initial_indices) != len(tried):
        return False
    env = dict(zip(back.initial_indices, tried, strict=True))
    found = [values_at(e, env) for e in back.final_indices]
    wanted = np.indices(tried[0].shape)
    return len(found) == len(wanted) and all(
        f is not None and np.array_equal(np.broadcast_to(f, w.shape), w) for f, w in zip(found, wanted, strict=True)
    )


def _try_out(index_map: IndexMap, shape: Sequence[PrimExpr]) -> list[npt.NDArray[np.int64]] | None:
    """The results of a map for all indices, where there are not too many."""
    sizes = [s.value for s in shape if isinstance(s, IntImm)]
    if len(sizes) != len(shape) or not index_map.final_indices or not 0 < np.prod(sizes, dtype=float) <= _MOST_POINTS:
        return None
    grid = np.indices(sizes, dtype=np.int64)
    env = dict(zip(index_map.initial_indices, grid, strict=True))
    found = [values_at(e, env) for e in index_map.final_indices]
    if any(f is None for f in found):
        return None
    full = [np.broadcast_to(f, tuple(sizes)) for f in found if f is not None]
    if any(int(f.min()) < 0 for f in full):
        raise ValueError("the index map gives negative results")
    return full


_BINARY: Final[dict[type[PrimExpr], Callable[[Any, Any], Any]]] = {
    ex.Add: np.add, ex.Sub: np.subtract, ex.Mul: np.multiply, ex.FloorDiv: np.floor_divide, ex.FloorMod: np.mod,
    ex.Min: np.minimum, ex.Max: np.maximum,
}  # fmt: skip
_CALLS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "tir.bitwise_xor": np.bitwise_xor, "tir.bitwise_and": np.bitwise_and, "tir.bitwise_or": np.bitwise_or,
    "tir.shift_left": np.left_shift, "tir.shift_right": np.right_shift,
}  # fmt: skip


def values_at(e: PrimExpr, env: Mapping[Var, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64] | None:
    """An expression for many values of its variables at once; None where an operation is none of the usual ones."""
    if isinstance(e, IntImm):
        return np.asarray(e.value, dtype=np.int64)
    if isinstance(e, Var):
        return env.get(e)
    if isinstance(e, ex.Cast) and e.dtype.is_int and e.value.dtype.is_int:
        return values_at(e.value, env)
    apply: Callable[[Any, Any], Any] | None = None
    parts: tuple[PrimExpr, ...] = ()
    if isinstance(e, ex.BinaryExpr):
        apply, parts = _BINARY.get(type(e)), (e.a, e.b)
    elif isinstance(e, ex.Call) and isinstance(e.op, ex.Op) and len(e.args) == 2:
        apply, parts = _CALLS.get(e.op.name), (e.args[0], e.args[1])
    if apply is None:
        return None
    a, b = (values_at(p, env) for p in parts)
    if a is None or b is None or (apply in (np.floor_divide, np.mod) and not np.all(b)):
        return None
    return apply(a, b)


def find_exception(condition: ex.CmpExpr, domain: Mapping[Var, Range]) -> str | None:
    """Values of variables in `domain` for which `a <= b` does not hold, as text; None where it holds for all of them.

    Empty where not all values can be tried.
    """
    sizes = [
        (r.min.value, r.extent.value)
        for r in domain.values()
        if isinstance(r.min, IntImm) and isinstance(r.extent, IntImm)
    ]
    if len(sizes) != len(domain) or np.prod([n for _, n in sizes], dtype=float) > _MOST_POINTS:
        return ""
    shape = [max(n, 0) for _, n in sizes]
    grid = np.indices(shape, dtype=np.int64)
    env = {v: g + low for v, g, (low, _) in zip(domain, grid, sizes, strict=True)}
    a, b = values_at(condition.a, env), values_at(condition.b, env)
    if a is None or b is None:
        return ""
    wrong = np.argwhere(np.broadcast_to(a > b, shape))
    if not len(wrong):
        return None
    return ", ".join(f"{v.name} = {int(k) + low}" for v, k, (low, _) in zip(domain, wrong[0], sizes, strict=True))


def _bounds_of_space(indices: Sequence[Var], shape: Sequence[PrimExpr]) -> dict[Var, Bound]:
    return range_bounds({v: Range.from_min_extent(IntImm(v.dtype, 0), s) for v, s in zip(indices, shape, strict=False)})


def _simplest(index_map: IndexMap, bounds: Mapping[Var, Bound]) -> IndexMap:
    return index_map.replace(final_indices=tuple(simplify(e, bounds) for e in index_map.final_indices))


# -- rewriting ------------------------------------------------------------------------------------


def bounds_below(block: Block) -> dict[Var, Bound]:
    """Constant bounds of all loops and axes at and below a block; a variable bound twice keeps none."""
    ranges: dict[Var, Range | None] = {}

    def note(var: Var, r: Range) -> None:
        ranges[var] = r if var not in ranges else None

    def look(node: object) -> bool:
        if isinstance(node, For):
            note(node.loop_var, loop_range(node))
        elif isinstance(node, Block):
            for var, r in axis_ranges(node).items():
                note(var, r)
        return True

    pre_order_visit(block, look)
    return range_bounds({v: r for v, r in ranges.items() if r is not None})


def mapped_region(index_map: IndexMap, ranges: Sequence[Range], bounds: Mapping[Var, Bound]) -> list[Range | None]:
    """For each result of a map, the range that encloses what it gives for indices in `ranges`; None if unknown.

    Single points stay single points.
    """
    if all(make.is_const_int(r.extent, 1) for r in ranges):
        points = [simplify(e, bounds) for e in index_map.map_indices([r.min for r in ranges])]
        return [Range.from_min_extent(p, IntImm(p.dtype, 1)) for p in points]
    relaxed = {
        v: Interval(r.min, simplify(r.min + r.extent - 1, bounds))
        for v, r in zip(index_map.initial_indices, ranges, strict=True)
    }
    found: list[Range | None] = []
    for e in index_map.final_indices:
        interval = eval_interval(e, Domains(relaxed, bounds))
        if interval is None:
            found.append(None)
            continue
        low = simplify(interval.low, bounds)
        extent = IntImm(low.dtype, 1) if interval.is_point else simplify(interval.high - interval.low + 1, bounds)
        found.append(Range.from_min_extent(low, extent))
    return found


class SimplifyIndices(Rewriter):
    """Simplifies the subscripts of loads, stores and regions."""

    def __init__(self, bounds: Mapping[Var, Bound]) -> None:
        super().__init__()
        self.bounds = bounds

    def leave_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """A load with its subscripts simplified."""
        return node.replace(indices=tuple(simplify(i, self.bounds) for i in node.indices))

    def leave_BufferStore(self, node: BufferStore) -> BufferStore:
        """A store with its subscripts simplified."""
        return node.replace(indices=tuple(simplify(i, self.bounds) for i in node.indices))

    def leave_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """A region with its ends simplified."""
        ranges = tuple(
            Range.from_min_extent(simplify(r.min, self.bounds), simplify(r.extent, self.bounds)) for r in node.region
        )
        return node.replace(region=ranges)


class ReplaceAxes(TrackingRewriter):
    """Puts expressions in the place of axis variables, and simplifies subscripts; all below a block follows."""

    def __init__(self, values: Mapping[Var, PrimExpr], bounds: Mapping[Var, Bound]) -> None:
        super().__init__()
        self.values = dict(values)
        self._tidy = SimplifyIndices(bounds)

    def rewrite_Var(self, node: Var) -> PrimExpr:
        """What stands for a variable."""
        return self.values.get(node, node)

    def leave_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        """A load with its subscripts simplified."""
        return self._tidy.leave_BufferLoad(node)

    def leave_BufferStore(self, node: BufferStore) -> BufferStore:
        """A store with its subscripts simplified."""
        return self._tidy.leave_BufferStore(node)

    def leave_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        """A region with its ends simplified."""
        return self._tidy.leave_BufferRegion(node)


def results_at(index_map: IndexMap, indices: Sequence[PrimExpr], bounds: Mapping[Var, Bound]) -> list[PrimExpr]:
    """The results of a map at indices, simplified."""
    return [simplify(e, bounds) for e in index_map.map_indices(indices)]


def value_at(index_map: IndexMap, result: PrimExpr, indices: Sequence[PrimExpr]) -> PrimExpr:
    """An expression over the indices of a map, at other indices; its type is kept."""
    return substitute(result, dict(zip(index_map.initial_indices, indices, strict=True)))
