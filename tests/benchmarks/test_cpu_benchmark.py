"""The benchmark of kernels works, at tiny size, and its schedules compute what they should."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tscript
from tscript import interp

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bench():
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("cpu_benchmark", ROOT / "benchmarks" / "cpu.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cpu_benchmark"] = module
    spec.loader.exec_module(module)
    return module


def test_rows_are_measured_beside_numpy(bench, capsys):
    assert bench.main(["fma_peak", "matmul_128", "--rounds", "1", "--no-torch", "--json"]) == 0
    peak, matmul = json.loads(capsys.readouterr().out)
    assert peak["key"] == "fma_peak" and peak["tscript"] > 1
    assert matmul["tscript"] > 1 and matmul["numpy"] > 1 and matmul["torch"] is None


def test_the_table_has_ratios(bench):
    text = bench.render([bench.Row("fma_peak", "GF", 200.0), bench.Row("matmul_128", "GF", 150.0, 100.0)])
    assert "| matmul_128 | GF | 150.0 | 100.0 | – | 1.50 | – | 0.75 |" in text


@pytest.mark.parametrize("shape", [(12, 64, 8), (13, 70, 9), (5, 3, 1), (1, 33, 4)])
@pytest.mark.parametrize("options", ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
def test_matmuls_of_any_shape_are_right_on_every_width(bench, shape, options):
    m, n, k = shape
    target = tscript.target.Target(options)
    sch = bench.scheduled_matmul(m, n, k, bench.tile_for(n, target))
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    checked, native = np.empty((2, m, n), np.float32)
    interp.run(sch.mod["main"], a, b, checked)
    tscript.build(sch.mod, target=target)["main"](a, b, native)
    np.testing.assert_allclose(checked, a @ b, rtol=1e-5)
    np.testing.assert_allclose(native, a @ b, rtol=1e-5)


def test_an_unknown_row_is_refused(bench):
    with pytest.raises(SystemExit):
        bench.main(["matmul_7"])
