"""Questions about programs that change nothing."""

from __future__ import annotations

from tscript.analysis.access_regions import detect_regions
from tscript.analysis.checkers import CheckError, Finding, OOBChecker, Report, check
from tscript.analysis.dependence import Conflict, Witness, loop_conflict, order_conflict, parallel_loops

__all__ = [
    "CheckError", "Conflict", "Finding", "OOBChecker", "Report", "Witness", "check", "detect_regions", "loop_conflict",
    "order_conflict", "parallel_loops",
]  # fmt: skip
