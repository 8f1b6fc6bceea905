"""Integer reasoning about index expressions: simplification, bounds, sets, iterator maps, equations."""

from tscript.arith.analyzer import Analyzer, ConstIntBound, ProofStrength
from tscript.arith.const_bound import Bound, const_bound
from tscript.arith.interval import Interval, eval_interval
from tscript.arith.iter_map.detect import detect_iter_map, iter_map_simplify, normalize_to_iter_sum
from tscript.arith.iter_map.divide import subspace_divide
from tscript.arith.iter_map.inverse import inverse_affine_iter_map
from tscript.arith.iter_map.model import (
    IterMapExpr,
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
)
from tscript.arith.iter_map.normalize import normalize_iter_map_to_expr
from tscript.arith.modular import ModularSet
from tscript.arith.simplify import simplify

__all__ = [
    "Analyzer",
    "Bound",
    "ConstIntBound",
    "Interval",
    "IterMapExpr",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "ModularSet",
    "ProofStrength",
    "const_bound",
    "detect_iter_map",
    "eval_interval",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "simplify",
    "subspace_divide",
]
