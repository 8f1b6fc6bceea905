"""Random arguments for any function, of which all that it does is defined.

Floats are small multiples of 1/8: their sums and products are exact in float32, in any order, so that a difference is
one of meaning. Integers that serve as subscripts stay inside what they index.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tscript.arith import simplify
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit, substitute
from tscript.ir.occurrences import variables
from tscript.ir.semantics import numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]

SMALL = 5
"""The value of a symbolic size for which none is given; no power of two, so that tiles do not fit evenly."""
_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan)


def require_sizes(functions: Iterable[PrimFunc], sizes: Mapping[str, int] | None) -> None:
    """ValueError for a name that is no symbolic size, stride or integer parameter of any of the functions."""
    known: dict[str, None] = {}
    for func in functions:
        known |= dict.fromkeys(free_sizes(func))
    for name in sizes or ():
        if name not in known:
            have = f"they are {', '.join(known)}" if known else "there are none"
            raise ValueError(f"there is no size {name!r} to give a value to: {have}")


def free_sizes(func: PrimFunc) -> dict[str, Var]:
    """The symbolic sizes, strides and integer parameters of a function, by name."""
    found: dict[str, Var] = {}

    def look(node: object) -> None:
        if isinstance(node, Var):
            found.setdefault(node.name, node)

    for p in func.params:
        buffer = func.buffer_map.get(p)
        for e in () if buffer is None else (*buffer.shape, *buffer.strides):
            post_order_visit(e, look)
        if buffer is None and (p.dtype.is_int or p.dtype.is_uint):
            found.setdefault(p.name, p)
    return found


class Arguments:
    """Arguments of a function, drawn from `seed`. The same seed gives the same to any function with such parameters.

    `attempt` above 0 keeps subscripts smaller, for programs that calculate with them; `special` puts infinities, NaN
    and zeros of both signs among the floats.
    """

    def __init__(
        self,
        func: PrimFunc,
        seed: int,
        sizes: Mapping[str, int] | None = None,
        *,
        special: bool = False,
        attempt: int = 0,
        roles: Mapping[int, int] | None = None,
    ) -> None:
        if seed < 0:
            raise ValueError(f"a seed of arguments is 0 or more, not {seed}")
        given = dict(sizes or {})
        self.sizes: dict[str, int] = dict.fromkeys(free_sizes(func), SMALL) | given
        self.sizes |= _compact_strides(func, self.sizes) | given
        self.roles = dict(roles) if roles is not None else subscript_roles(func, self.sizes)
        self._rng = np.random.default_rng([seed, zlib.crc32(b"arguments")])
        self._special, self._attempt = special, attempt
        self.values: list[Any] = [self._value(func, k, p) for k, p in enumerate(func.params)]

    def _with_special_values(self, values: Array) -> Array:
        """A tenth of the elements replaced, and so that small arrays have each special value, NaN before all."""
        count = max(values.size // 10, min(values.size // 2, len(_SPECIAL)))
        places = self._rng.permutation(values.size)[:count]
        odd = np.resize(np.append(np.nan, self._rng.permutation(_SPECIAL[:-1])), count)
        result = values.copy()
        result.flat[places] = odd
        return result

    def fresh(self) -> list[Any]:
        """The arguments, with arrays that may be written to."""
        return [_copied(v) if isinstance(v, np.ndarray) else v for v in self.values]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def _value(self, func: PrimFunc, k: int, param: Var) -> Any:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            shape = known_shape(buffer, self.sizes)
            values = self._array(buffer.dtype, shape, self.roles.get(k))
            strides = [value_with(e, self.sizes) for e in buffer.strides]
            known = tuple(n for n in strides if n is not None)
            return _laid_out(values, known) if buffer.strides and len(known) == len(shape) else values
        if param.dtype.is_float:
            return float(self._rng.integers(-8, 9)) / 8
        if param.dtype.is_bool:
            return True
        return None if param.dtype.is_handle else self.sizes[param.name]

    def _array(self, dtype: DataType, shape: tuple[int, ...], below: int | None) -> Array:
        kind = numpy_dtype(dtype)
        if dtype.is_bool:
            return self._rng.integers(0, 2, shape).astype(kind)
        if dtype.is_float:
            values = self._rng.integers(-8, 9, shape, dtype=np.int8) / np.float32(8)
            return (self._with_special_values(values) if self._special else values).astype(kind)
        if below is not None:
            top = max(1, (abs(below), min(2, abs(below)), 1)[min(self._attempt, 2)])
            drawn = self._rng.integers(0, top, shape)
            # The bounds of inner loops are kept in order, so that these loops run.
            return (np.sort(drawn, axis=-1) if below < 0 else drawn).astype(kind)
        low, high = int_range(dtype.element)
        wide = self._rng.integers(max(low, -128), min(high, 255) + 1, shape)
        return wide.astype(kind)


def _compact_strides(func: PrimFunc, sizes: Mapping[str, int]) -> dict[str, int]:
    """Strides that are sizes of their own, by name: as of an array without gaps."""
    found: dict[str, int] = {}
    inner: dict[Var, None] = {}
    for p in func.params:
        buffer = func.buffer_map.get(p)
        if buffer is None:
            inner[p] = None
            continue
        for e in buffer.shape:
            inner |= variables(e)
        step = 1
        for n, stride in reversed([*zip(known_shape(buffer, sizes), buffer.strides, strict=False)]):
            if isinstance(stride, Var):
                found.setdefault(stride.name, step)
            step *= n
    shared = {v.name: None for v in inner}
    return {name: n for name, n in found.items() if name not in shared}


def _laid_out(values: Array, strides: tuple[int, ...]) -> Array:
    """The same elements, so many elements apart. Those between are of nobody."""
    size = values.itemsize
    if tuple(n * size for n in strides) == values.strides or not values.size:
        return values
    room = 1 + sum((n - 1) * step for n, step in zip(values.shape, strides, strict=True))
    view: Array = np.lib.stride_tricks.as_strided(
        np.zeros(room, values.dtype), values.shape, tuple(n * size for n in strides)
    )
    view[...] = values
    return view


def _copied(values: Array) -> Array:
    """A copy that lies in memory alike, gaps between elements included."""
    return _laid_out(values.copy(), tuple(n // values.itemsize for n in values.strides))


def known_shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a buffer for given sizes. ValueError for one that is no number then."""
    shape = [value_with(e, sizes) for e in buffer.shape]
    if any(n is None for n in shape):
        raise ValueError(f"the shape of `{buffer.name}` is not known from {dict(sizes)}")
    return tuple(n for n in shape if n is not None)


def value_with(e: PrimExpr, sizes: Mapping[str, int]) -> int | None:
    """The value of an expression of sizes, if it has one."""
    if isinstance(e, IntImm):
        return e.value
    known: dict[Var, PrimExpr] = {}

    def look(node: object) -> None:
        if isinstance(node, Var) and node.name in sizes:
            known[node] = IntImm(node.dtype, sizes[node.name])

    post_order_visit(e, look)
    result = simplify(substitute(e, known))
    return result.value if isinstance(result, IntImm) else None


def subscript_roles(func: PrimFunc, sizes: Mapping[str, int]) -> dict[int, int]:
    """The parameters whose elements say where others lie: to each, the size of the smallest dimension that they index.

    It is negative for one whose elements bound a loop.
    """
    numbers = {func.buffer_map[p]: k for k, p in enumerate(func.params) if p in func.buffer_map}
    roles: dict[int, int] = {}

    def note(e: PrimExpr, size: int | None, sign: int) -> None:
        def look(node: object) -> None:
            if isinstance(node, ex.BufferLoad) and node.buffer in numbers and not node.buffer.dtype.is_float:
                k, room = numbers[node.buffer], size if size is not None else SMALL
                old = roles.get(k)
                least = room if old is None else min(abs(old), room)
                roles[k] = least * (-1 if sign < 0 or (old is not None and old < 0) else 1)

        post_order_visit(e, look)

    def visit(node: object) -> None:
        if isinstance(node, (ex.BufferLoad, st.BufferStore)):
            for e, n in zip(node.indices, node.buffer.shape, strict=False):
                note(e, value_with(n, sizes), 1)
        elif isinstance(node, st.BlockRealize):
            for e, axis in zip(node.iter_values, node.block.iter_vars, strict=True):
                note(e, None if axis.dom is None else value_with(axis.dom.extent, sizes), 1)
        elif isinstance(node, st.For):
            for e in (node.min, node.extent):
                note(e, None, -1)

    post_order_visit(func.body, visit)
    if any(k < 0 for k in roles.values()):
        _bound_by_ranges(func, roles, sizes)
    return roles


def _bound_by_ranges(func: PrimFunc, roles: dict[int, int], sizes: Mapping[str, int]) -> None:
    """Elements that bound loops lie within the smallest dimension of a parameter that has but one."""
    rows = [known_shape(func.buffer_map[p], sizes) for p in func.params if p in func.buffer_map]
    room = min((s[0] for s in rows if len(s) == 1), default=SMALL)
    for k, value in roles.items():
        if value < 0:
            roles[k] = -max(1, min(-value, room))
