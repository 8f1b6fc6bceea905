"""Integer reasoning about index expressions: constant bounds, simplification, symbolic intervals."""

from tscript.arith.const_bound import Bound, const_bound
from tscript.arith.interval import Interval, eval_interval
from tscript.arith.simplify import simplify

__all__ = ["Bound", "Interval", "const_bound", "eval_interval", "simplify"]
