"""The benchmark of products works, with few rounds."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bench():
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("products", ROOT / "benchmarks" / "products.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["products"] = module
    spec.loader.exec_module(module)
    return module


def test_a_row_has_rates_and_ratios(bench, capsys):
    assert bench.main(["--no-torch", "--rounds", "1", "matmul_128x128x128", "matmul_bias_relu_512"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    for line in lines[3:]:
        cells = [c.strip() for c in line.strip("|").split("|")]
        assert len(cells) == 6
        assert float(cells[1].split()[0]) > 0 and float(cells[3].split()[0]) > 0 and cells[5] == "–"


def test_results_are_those_of_numpy(bench):
    for case in (
        bench.float_case(20, 70, 33, None),
        bench.finished_case(40, "gelu", None),
        bench.bf16_case(64, None),
        bench.byte_case(64, None),
    ):
        assert "| " in bench.measure("small", case, 1, 1)


def test_an_unknown_row_is_refused(bench, capsys):
    with pytest.raises(SystemExit):
        bench.main(["no_such_row"])
    assert "no row 'no_such_row'" in capsys.readouterr().err
