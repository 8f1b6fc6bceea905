"""Finds accesses out of bounds, reads of unwritten memory and races, without running anything."""

from __future__ import annotations

from tscript.analysis.checkers.check import OOBChecker, check
from tscript.analysis.checkers.report import Finding, Report
from tscript.support.errors import CheckError

__all__ = ["CheckError", "Finding", "OOBChecker", "Report", "check"]
