"""Questions about programs, under TVM's names."""

from tscript.analysis.checkers import OOBChecker
from tscript.analysis.cost import Cache, Cost, estimate_cost
from tscript.analysis.flops import estimate_tir_flops
from tscript.ir.well_formed import verify_well_formed

__all__ = ["Cache", "Cost", "OOBChecker", "estimate_cost", "estimate_tir_flops", "verify_well_formed"]
