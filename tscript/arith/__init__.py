"""Integer reasoning about index expressions: simplification, bounds, sets, iterator maps, equations."""

from tscript.arith.analyzer import Analyzer, ConstIntBound, ProofStrength
from tscript.arith.const_bound import Bound, const_bound
from tscript.arith.interval import Interval, eval_interval
from tscript.arith.modular import ModularSet
from tscript.arith.simplify import simplify

__all__ = [
    "Analyzer",
    "Bound",
    "ConstIntBound",
    "Interval",
    "ModularSet",
    "ProofStrength",
    "const_bound",
    "eval_interval",
    "simplify",
]
