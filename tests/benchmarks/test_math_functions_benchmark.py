"""The benchmark of math functions works, at tiny size, and its errors are those of the functions."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def bench(benchmark_module: Any) -> Any:
    """The benchmark as a module."""
    return benchmark_module("math_functions")


def test_a_line_for_each_type(bench: Any, capsys: Any) -> None:
    assert bench.main(["exp", "--rounds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1:3] for line in lines[2:]] == [[" exp ", " float32 "], [" exp ", " float64 "]]
    assert all(0 < float(line.split("|")[3]) < 1000 for line in lines[2:])


def test_errors_are_measured_over_all_exponents(bench: Any) -> None:
    worst, place = bench.largest_error("log", 16, 50_021)
    assert 0.5 < worst < 2 and place > 0
