"""Questions about the blocks of a schedule: who makes what for whom, and what they refuse."""

from __future__ import annotations

from tests.schedule.check import check_schedule, rejects
from tests.schedule.test_cache_read import two
from tscript.schedule import Schedule


def names(s: Schedule, blocks: list[object]) -> list[str]:
    return [s.get(b).name_hint for b in blocks]  # type: ignore[arg-type]


def test_producers_consumers_and_outputs() -> None:
    def steps(s: Schedule) -> None:
        assert names(s, s.get_consumers("dbl")) == ["inc"]
        assert names(s, s.get_consumers("inc")) == []
        assert names(s, s.get_producers("inc")) == ["dbl"]
        assert names(s, s.get_output_blocks("root")) == ["inc"]

    check_schedule(two, steps, two)


def test_the_root_has_neither_producers_nor_consumers() -> None:
    rejects(two, lambda s: s.get_consumers("root"), "root")
    rejects(two, lambda s: s.get_producers("root"), "root")
    rejects(two, lambda s: s.get_output_blocks("nothing"), "no block 'nothing'")
