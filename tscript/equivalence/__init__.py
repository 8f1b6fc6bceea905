"""Whether two programs compute the same: run on small random inputs, compared element by element."""

from __future__ import annotations

from tscript.equivalence.comparison import Difference, Report, Trial, compare
from tscript.equivalence.tolerance import Tolerance, compare_arrays, first_difference

__all__ = ["Difference", "Report", "Tolerance", "Trial", "compare", "compare_arrays", "first_difference"]
