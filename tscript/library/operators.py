"""The operators that the library knows, in the order in which they are tried."""

from __future__ import annotations

from typing import Final

from tscript.library.elementwise import ELEMENTWISE
from tscript.library.low_precision import LOW_PRECISION
from tscript.library.matmul import PRODUCT
from tscript.library.operator import Operator
from tscript.library.reductions import REDUCTION
from tscript.library.rows import LAYER_NORM, RMS_NORM, ROWS, SOFTMAX
from tscript.library.transpose import TRANSPOSE

OPERATORS: Final[tuple[Operator, ...]] = (
    LOW_PRECISION,
    PRODUCT,
    SOFTMAX,
    LAYER_NORM,
    RMS_NORM,
    ROWS,
    TRANSPOSE,
    ELEMENTWISE,
    REDUCTION,
)
"""The first that recognises a function schedules it: the more special ones stand first."""

__all__ = ["OPERATORS"]
