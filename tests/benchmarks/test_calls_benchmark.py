"""The benchmark of calls works, at tiny size, and shows peers beside."""

from __future__ import annotations

import json
import sys

import pytest


@pytest.fixture(scope="module")
def bench(benchmark_module):
    """The benchmark as a module."""
    return benchmark_module("calls")


def test_every_call_is_measured(bench, capsys):
    assert bench.main(["--rounds", "1", "--number", "10", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    found = {(r["case"], r["column"]) for r in table}
    assert {(c.key, column) for c in bench.CASES for column in ("numpy", "own")} <= found
    assert ("arrays3", "ufunc") in found and ("arrays8", "ufunc") not in found
    assert all(0 < r["seconds"] < 1 for r in table)


def test_the_kernels_do_what_the_functions_beside_them_do(bench):
    calls = bench._ours()
    for case in bench.CASES:
        results = []
        for column in ("numpy", "own", "ufunc", "numba"):
            if (case.key, column) in calls:
                f, args = calls[case.key, column]
                f(*args)
                results.append([float(a[0]) for a in args[: case.arrays]])
        assert all(r == results[0] for r in results)


def test_the_table_says_whether_the_budget_is_kept(bench):
    text = bench.render({("arrays3", "numpy"): 0.1e-6, ("arrays3", "own"): 0.2e-6, ("arrays1", "numpy"): 9e-8})
    assert "| 3 arrays | 0.100 | 0.200 |" in text and "| 1 array | 0.090 | – |" in text
    assert "0.200, over the budget of 0.15" in text
    assert "within" in bench.render({("arrays3", "own"): 0.1e-6})
    figures = {("arrays3", "own"): 0.1e-6, ("arrays1", "numpy"): 0.1e-6, ("parallel", "numpy"): 1.3e-6}
    assert "start and join in 1.200, over the budget of 1.00" in bench.render(figures)


STAND_IN = """#!{python}
import json, sys
request = json.loads(sys.stdin.readline())
assert all("s_tir=True" in c["source"] for c in request["cases"])
print(json.dumps("0"), flush=True)
for line in sys.stdin:
    print(json.dumps([["arrays3", "peer_own", float(line) * 1e-9]]), flush=True)
"""


def test_a_peer_takes_part_in_each_round(bench, tmp_path):
    stand_in = tmp_path / "python"
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    peer = bench.Peer(str(stand_in))
    try:
        figures = bench.measure(rounds=2, number=5, peer=peer)
    finally:
        peer.close()
    assert figures["arrays3", "peer_own"] == 5e-9
    assert "TVM, its own |" in bench.render(figures)


def test_a_peer_that_fails_is_reported(bench, tmp_path):
    stand_in = tmp_path / "python"
    stand_in.write_text(f"#!{sys.executable}\nraise SystemExit(3)\n")
    stand_in.chmod(0o755)
    with pytest.raises(RuntimeError, match="the peer ended with status 3"):
        bench.Peer(str(stand_in))
