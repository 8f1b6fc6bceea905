"""Search strategy."""

from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.search_strategy.search_strategy import PySearchStrategy, SearchStrategy

__all__ = ["MeasureCandidate", "PySearchStrategy", "SearchStrategy"]
