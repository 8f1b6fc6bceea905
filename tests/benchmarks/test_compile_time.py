"""The benchmark of the Python side works, at tiny size, and reports what it measured."""

from __future__ import annotations

import json
import sys

import pytest


@pytest.fixture(scope="module")
def bench(benchmark_module):
    """The benchmark as a module."""
    return benchmark_module("compile_time")


def test_every_step_is_measured(bench, capsys):
    assert bench.main(["--runs", "1", "--number", "10", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert [r["key"] for r in table] == [
        "import",
        "parse",
        "print",
        "schedule",
        "replay",
        "build",
        "call_own",
        "call_numpy",
    ]
    assert all(0 < r["measured"] < 60 for r in table)


def test_the_table_marks_what_exceeds_its_budget(bench):
    text = bench.render(bench.rows({"parse": 4e-3, "print": 5e-3, "call_own": 0.2e-6}))
    assert "| parse the 128x128 matmul + ReLU module | 5.00 ms | 4.00 ms | within | – |" in text
    assert "| print it | 3.00 ms | 5.00 ms | over | 0.40 ms |" in text
    assert "| one call with three arrays, own | 0.15 µs | 0.20 µs | over | 0.23 µs |" in text


def test_a_peer_is_shown_beside(bench, tmp_path):
    stand_in = tmp_path / "python"
    stand_in.write_text(f"#!{sys.executable}\nimport json\nprint(json.dumps({{'seconds': {{'print': 2e-3}}}}))\n")
    stand_in.chmod(0o755)
    peer = bench.measure_peer(str(stand_in), runs=1, number=1)
    text = bench.render(bench.rows({"print": 1e-3}, peer))
    assert text.splitlines()[0].endswith("| peer |")
    assert text.splitlines()[2].endswith("| 0.40 ms | 2.00 ms |")


def test_a_peer_that_fails_says_why(bench, tmp_path):
    stand_in = tmp_path / "python"
    stand_in.write_text(f"#!{sys.executable}\nraise SystemExit('no such package')\n")
    stand_in.chmod(0o755)
    with pytest.raises(RuntimeError, match="no such package"):
        bench.measure_peer(str(stand_in), runs=1, number=1)


def test_the_size_counts_the_dependencies_of_dependencies(bench):
    # rich requires markdown-it-py, which requires mdurl.
    parts = [bench.installed_size(p) for p in ("pygments", "markdown-it-py")]
    assert bench.installed_size("markdown-it-py") > bench.installed_size("mdurl") > 0
    assert bench.installed_size("rich") > sum(parts)


def test_a_package_that_is_not_installed_has_no_size(bench):
    assert bench.installed_size("no-such-distribution") == 0
