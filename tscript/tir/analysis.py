"""Questions about programs, under TVM's names."""

from tscript.analysis.checkers import OOBChecker
from tscript.analysis.cost import Cache, Cost, estimate_cost
from tscript.analysis.dependence import Conflict, Witness, loop_conflict, order_conflict, parallel_loops
from tscript.analysis.flops import estimate_tir_flops
from tscript.analysis.host_access import verify_memory
from tscript.ir.well_formed import verify_well_formed

__all__ = [
    "Cache", "Conflict", "Cost", "OOBChecker", "Witness", "estimate_cost", "estimate_tir_flops", "loop_conflict",
    "order_conflict", "parallel_loops", "verify_memory", "verify_well_formed",
]  # fmt: skip
