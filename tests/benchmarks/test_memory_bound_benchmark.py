"""The benchmark of kernels that memory limits works, on small arrays."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bench():
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("memory_bound", ROOT / "benchmarks" / "memory_bound.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["memory_bound"] = module
    spec.loader.exec_module(module)
    return module


def test_every_row_is_measured_beside_a_copy_and_numpy(bench, capsys):
    assert bench.main(["--small", "--rounds", "1", "--no-torch", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [r["key"] for r in rows] == list(bench.cases(small=True))
    assert all(r["gigabytes"] > 0 and r["of_copy"] > 0 and r["over_numpy"] > 0 for r in rows)
    assert all(r["over_torch"] is None for r in rows)


def test_the_table_leaves_out_what_was_not_measured(bench):
    text = bench.render([bench.Row("add", 24.0, 0.9, None, 1.5)])
    assert "| add | 24.0 | 0.90 | – | 1.50 |" in text


def test_numpy_says_the_same(bench):
    for case in bench.cases(small=True).values():
        arrays = case.work.arguments()
        case.numpy(arrays)
        case.work.check(arrays)


def test_an_unknown_row_is_refused(bench):
    with pytest.raises(SystemExit):
        bench.main(["softmax_7"])
