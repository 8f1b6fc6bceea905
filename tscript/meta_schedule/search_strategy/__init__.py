"""Which candidates of a space to measure next."""

from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.search_strategy.evolutionary import EvolutionarySearch
from tscript.meta_schedule.search_strategy.replay_func import ReplayFunc
from tscript.meta_schedule.search_strategy.replay_trace import ReplayTrace
from tscript.meta_schedule.search_strategy.search_strategy import PySearchStrategy, SearchStrategy
from tscript.meta_schedule.tune_context import register_maker

for _words, _strategy in (
    (("evolutionary",), EvolutionarySearch),
    (("replay-trace", "replay_trace"), ReplayTrace),
    (("replay-func", "replay_func"), ReplayFunc),
):
    for _word in _words:
        SearchStrategy.register_kind(_word, _strategy)
register_maker("search_strategy", SearchStrategy.create)

__all__ = [
    "EvolutionarySearch",
    "MeasureCandidate",
    "PySearchStrategy",
    "ReplayFunc",
    "ReplayTrace",
    "SearchStrategy",
]
