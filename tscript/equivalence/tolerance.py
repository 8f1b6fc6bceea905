"""When two arrays hold the same values: the one comparison of results.

Integers must agree exactly. Floats may differ by what another order of the same sums may change: some steps between
neighbours of the type that the arithmetic is done in, measured against the largest result, since terms may cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tscript.ir import expr as ex
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.semantics import numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]

_limits: Callable[[Any], Any] = ml_dtypes.finfo


@dataclass(frozen=True)
class Tolerance:
    """How far a float may lie from the one that is expected: `relative` of its own size, `of_largest` of the size of
    the largest that is finite, and `absolute`. Beyond these, the type itself allows one step.

    >>> first_difference(np.float32([1.0, 2.0]), np.float32([1.0, 2.5]), Tolerance(relative=0.1))
    (1,)
    """

    relative: float = 0.0
    of_largest: float = 0.0
    absolute: float = 0.0


EXACT = Tolerance()
"""To the last bit, but for NaNs, which are equal to each other, and zeros of either sign."""
ROUNDED = Tolerance(relative=1e-5, absolute=1e-6)
"""A few units in the last place of float32."""
_STEPS = 16
"""How many steps of its type a sum in another order may be off: the random errors of 256 terms add up to it."""


def is_inexact(dtype: Any) -> bool:
    """Whether elements of a NumPy type are floats, those of below 32 bits included."""
    return dtype.kind in "fV" or dtype.name.startswith(("bfloat", "float"))


def reassociation_tolerance(functions: Iterable[PrimFunc]) -> Tolerance:
    """What another order of float arithmetic may change, given the types that the functions calculate in.

    A type that values are only kept in does not count: it rounds once, whatever the order.
    """
    found: dict[Any, None] = {}

    def look(node: object) -> None:
        if isinstance(node, (ex.Add, ex.Sub, ex.Mul, ex.Div, ex.Call)) and node.dtype.is_float:
            found[node.dtype.element] = None

    for f in functions:
        post_order_visit(f.body, look)
    widest = max((float(_limits(numpy_dtype(t)).eps) for t in found), default=0.0)
    return Tolerance(of_largest=_STEPS * widest, absolute=1e-6 if found else 0.0)


def first_difference(got: Array, expected: Array, tolerance: Tolerance = EXACT) -> tuple[int, ...] | None:
    """The indices of the first element that differs by more than is allowed; None where all agree."""
    inexact = is_inexact(expected.dtype)
    a, b = (got.astype(np.float64), expected.astype(np.float64)) if inexact else (got, expected)
    with np.errstate(invalid="ignore"):
        same = (a == b) | ((a != a) & (b != b))
        if inexact and tolerance != EXACT and not same.all():
            finite = np.abs(b[np.isfinite(b)])
            largest = float(finite.max()) if finite.size else 0.0
            # A narrow type magnifies what lies on the edge between two of its values to the step between them.
            own = max(float(_limits(expected.dtype).eps), tolerance.relative)
            room = own * np.abs(b) + tolerance.of_largest * largest + tolerance.absolute
            same |= np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= room)
    if same.all():
        return None
    return tuple(int(i) for i in np.argwhere(~same)[0])


def compare_arrays(
    got: Array, expected: Array, what: str, *, exact: bool = True, tolerance: Tolerance | None = None
) -> None:
    """AssertionError, with the first differing element, unless both arrays hold the same values.

    With `exact=False`, floats may differ by a few units in the last place; `tolerance` says how much else.
    """
    where = first_difference(got, expected, tolerance or (EXACT if exact else ROUNDED))
    if where is not None:
        raise AssertionError(f"{what} differs at {where}: got {got[where]!r}, expected {expected[where]!r}")
