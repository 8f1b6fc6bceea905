"""Memory stays bounded over builds and loads; the long runs are those of the benchmark."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the memory in use")


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak", ROOT / "benchmarks" / "soak.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = module
    spec.loader.exec_module(module)
    return module


def test_a_build_that_is_dropped_gives_its_memory_back(soak: ModuleType) -> None:
    lib = soak.build(1)  # whatever happens once has happened
    for _ in range(8):
        soak.build(1)
    row = soak.cycles("build", 25, 30.0, lambda _: soak._is_right(soak.build(1), 1))
    # Keeping LLVM's passes would take more than 60 KiB each.
    assert row.is_within, row
    assert soak._is_right(lib, 1)


def test_a_library_that_is_dropped_gives_its_memory_back(soak: ModuleType, tmp_path: Path) -> None:
    soak.build(7).export_library(tmp_path / "soak.tslib")
    row = soak.loads(300, tmp_path)
    assert row.growth < 8 and not row.errors, row


def test_the_long_run_reports_each_kind_of_cycle(soak: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    soak.main(["--builds", "2", "--loads", "2", "--seconds", "0.05", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [r["name"] for r in rows] == ["build and drop", "load and drop", "calls from 16 threads"]
    assert all(r["errors"] == 0 and r["cycles"] > 0 and r["seconds"] > 0 for r in rows)
    over = soak.Row("build", 10, 5.0, 4.0, 0.1)
    assert not over.is_within and "over |" in soak.render([over])
    assert not soak.Row("build", 10, 0.0, 4.0, 0.1, errors=1).is_within
