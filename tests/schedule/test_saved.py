"""Schedules saved to files, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tscript.ir import assert_structural_equal
from tscript.ir.json_io import LoadError
from tscript.schedule import Schedule, ScheduleError
from tscript.testing.workloads import matmul


def tiled(seed: int = 3) -> Schedule:
    """A schedule with a sample and a change of each kind of loop."""
    sch = Schedule(matmul(16, 16, 16).func, seed=seed)
    i, _, k = sch.get_loops("C")
    sch.split(i, sch.sample_perfect_tile(i, 2))
    sch.decompose_reduction("C", k)
    return sch


def test_a_saved_schedule_comes_back_with_its_decisions_and_its_start(tmp_path: Path) -> None:
    sch = tiled()
    sch.save(tmp_path / "a.json")
    again = Schedule.load(tmp_path / "a.json")
    assert_structural_equal(again.mod, sch.mod)
    assert again.trace is not None and sch.trace is not None
    assert again.trace.as_json() == sch.trace.as_json()
    assert [s.mod.script() for s in again.trace.steps()] == [s.mod.script() for s in sch.trace.steps()]


def test_steps_without_checks_come_back_without_checks(tmp_path: Path) -> None:
    sch = Schedule(matmul(8, 8, 8).func, enable_check=False)
    sch.save(tmp_path / "a.json")
    assert not Schedule.load(tmp_path / "a.json").enable_check


def test_a_schedule_that_records_nothing_cannot_be_saved(tmp_path: Path) -> None:
    sch = Schedule(matmul(8, 8, 8).func)
    sch.trace = None
    with pytest.raises(ValueError, match="records no trace"):
        sch.save(tmp_path / "a.json")


def damaged(change: Any) -> str:
    """The text of a file that holds nothing, with one thing changed."""
    head: dict[str, Any] = {"format": "tscript.trace", "version": 1, "checks": True, "workload": {}, "trace": []}
    change(head)
    return json.dumps(head)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON: line 1, column 1"),
        ("{", "no JSON: line 1, column 2"),
        ("[]", "no saved schedule: it is no object"),
        ("{}", "its format is None, not 'tscript.trace'"),
        (damaged(lambda h: h.update(version=2)), "its version is 2; this tscript reads version 1"),
        (damaged(lambda h: h.pop("trace")), "the field 'trace' is missing or no list"),
        (damaged(lambda h: h.update(checks=1)), "the field 'checks' is missing or no bool"),
        (damaged(lambda h: None), "a.json: "),
        ("[" * 100000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_saved_schedule_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LoadError, match=message):
        Schedule.load(path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LoadError, match="is no text"):
        Schedule.load(tmp_path / "a.json")


def test_a_step_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    tiled().save(path)
    saved = json.loads(path.read_text(encoding="utf-8"))
    saved["trace"][0][2][1][0] = "l99"
    path.write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(LoadError, match=r"line 3 of its trace: the trace refers to 'l99'"):
        Schedule.load(path)
    saved["trace"][0] = [["GetBlock", [], ["nowhere", "main"], ["b0"]]]
    path.write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(ScheduleError, match="nowhere"):
        Schedule.load(path)
