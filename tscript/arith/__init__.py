"""Integer reasoning about index expressions: simplification, bounds, sets, iterator maps, equations."""

from tscript.arith.analyzer import Analyzer, CompareResult, ConstIntBound, ProofStrength
from tscript.arith.const_bound import Bound, const_bound
from tscript.arith.constraints import IntConstraints, IntConstraintsTransform, IntGroupBounds
from tscript.arith.deduce_bound import deduce_bound
from tscript.arith.domain_touched import domain_touched
from tscript.arith.int_set import IntervalSet, IntSet, eval_set, intersect, union, union_lower_bound
from tscript.arith.interval import Interval, eval_interval
from tscript.arith.iter_map.detect import detect_iter_map, iter_map_simplify, normalize_to_iter_sum
from tscript.arith.iter_map.divide import subspace_divide
from tscript.arith.iter_map.inverse import inverse_affine_iter_map
from tscript.arith.iter_map.model import IterMapExpr, IterMapLevel, IterMapResult, IterMark, IterSplitExpr, IterSumExpr
from tscript.arith.iter_map.normalize import normalize_iter_map_to_expr
from tscript.arith.linear_equation import detect_clip_bound, detect_linear_equation
from tscript.arith.modular import ModularSet
from tscript.arith.region import (
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    relax_region,
)
from tscript.arith.simplify import simplify
from tscript.arith.solve_equations import solve_linear_equations
from tscript.arith.solve_inequalities import solve_linear_inequalities

__all__ = [
    "Analyzer",
    "Bound",
    "CompareResult",
    "ConstIntBound",
    "IntConstraints",
    "IntConstraintsTransform",
    "IntGroupBounds",
    "IntSet",
    "Interval",
    "IntervalSet",
    "IterMapExpr",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "ModularSet",
    "ProofStrength",
    "const_bound",
    "deduce_bound",
    "detect_clip_bound",
    "detect_iter_map",
    "detect_linear_equation",
    "domain_touched",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
    "eval_interval",
    "eval_set",
    "intersect",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "relax_region",
    "simplify",
    "solve_linear_equations",
    "solve_linear_inequalities",
    "subspace_divide",
    "union",
    "union_lower_bound",
]
