"""The benchmark of kernels works, at tiny sizes, and its verdicts follow from what it measured."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pytest

import tscript


@pytest.fixture(scope="module")
def bench(benchmark_module):
    """The benchmark as a module, and those beside it."""
    return benchmark_module("cpu")


@pytest.fixture(scope="module")
def race(bench):
    """How contenders are measured."""
    return importlib.import_module("cpu_race")


@pytest.fixture(scope="module")
def rows(bench):
    """What is measured."""
    return importlib.import_module("cpu_rows")


def setting(bench, threads=1, tvm=None):
    return bench.Setting(threads, 1, 0.01, True, None, tvm, None)


@pytest.mark.parametrize(("threads", "patterns"), [(1, []), (2, ["matmul_128", "conv2d*", "softmax_4096", "matvec*"])])
def test_every_row_is_measured_beside_numpy(bench, threads, patterns):
    keys = [k for k in bench.chosen(patterns) if k not in bench.COSTS]
    found = list(bench.measure(keys, setting(bench, threads)))
    wanted = [k for k in keys if threads == 1 or bench.ROWS[k].threads == "all"]
    assert [r.key for r in found] == wanted and len(wanted) == (21 if threads == 1 else 3)
    for r in found:
        assert r.threads == threads and r.goals and r.of_ceiling > 0
        assert set(r.rates) == {"ours", "numpy", "ceiling"} and all(v > 0 for v in r.rates.values())
        assert set(r.ratios) == {"numpy"}


def test_costs_stand_beside_their_budgets(bench):
    (call, build) = bench.measure(["call", "thread_start", "build"], setting(bench, 1))
    (start,) = bench.measure(["call", "thread_start", "build"], setting(bench, 2))
    assert [call.key, build.key, start.key] == ["call", "build", "thread_start"]
    assert set(call.goals) == {"within 0.15 µs"} and set(build.goals) == {"within 40000 µs"}
    assert call.rates["ours"] > 0 and call.ratios["numpy"][0] > 0 and build.rates["ours"] > 1000


def test_processes_measure_and_the_table_is_joined(bench, capsys):
    given = ["--small", "--rounds", "1", "--no-torch", "--no-tvm", "--only", "matmul_128", "add*"]
    assert bench.main([*given, "--threads", "1", "2", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert [(r["key"], r["threads"]) for r in table] == [("matmul_128", 1), ("add_16M", 1), ("add_16M", 2)]
    assert all(set(r["goals"].values()) <= {True, False, None} for r in table)
    assert table[0]["goals"]["1.1 x PyTorch"] is None


def test_a_process_has_a_line_for_each_row(bench, monkeypatch, capsys):
    made = bench.Result(
        "matmul_128", 1, "GF", {"ours": 150.0, "numpy": 100.0}, {"numpy": (1.5, 1.4)}, 0.75,
        {"1.4 x NumPy": True, "1.1 x PyTorch": None},
    )  # fmt: skip
    monkeypatch.setattr(bench, "_results", lambda argv, threads: iter([made]))
    assert bench.main(["--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[4] == (
        "| matmul_128 | 1 | GF | 150.0 | 100.0 | – | – | 1.50 (1.40) | – | – | 0.75 "
        "| 1.4 x NumPy: reached, 1.1 x PyTorch: not measured |"
    )
    assert lines[-1] == "1 of 2 goals reached, 1 not measured."


def test_a_goal_is_reached_by_the_medians(bench, rows):
    goals = (rows.Goal("best", 1.0), rows.Goal("torch", 1.1), rows.Goal("fma", 2.0), rows.Goal("tvm", 1.0))
    ratios = {"numpy": (1.5, 0.9), "torch": (1.05, 2.0)}
    assert bench.judged(goals, ratios, "fma", 1.9) == {
        "1 x the better of NumPy and PyTorch": True,
        "1.1 x PyTorch": False,
        "2 of fused multiply-adds on registers": False,
        "1 x TVM": None,
    }
    assert list(bench.judged(goals[:1], {"torch": (0.99, 1.2)}, "fma", 1.0).values()) == [False]


def test_contenders_run_in_turn(race):
    order = []
    runs = {n: lambda number, n=n: order.append(n) or 1e-4 * number for n in "ab"}
    found = race.race(runs, rounds=2, seconds=1.0)
    assert {n: len(s) for n, s in found.items()} == {"a": 2, "b": 2}
    assert "".join(order[4:]) == "aabb" * 2  # each warms up first
    slow = {"a": lambda number: 0.01, "b": lambda number: 10.0}
    assert {n: len(s) for n, s in race.race(slow, rounds=9, seconds=1.0).items()} == {"a": 9, "b": 3}
    assert race.ratio([1.0, 2.0, 4.0], [2.0, 2.0, 2.0]) == (1.0, 2.0)


def test_results_of_the_others_are_right(rows):
    torch = pytest.importorskip("torch")
    for key, row in rows.ROWS.items():
        case = row.make(torch, True)
        given = case.others["torch"]() if "torch" in case.others else None
        if given is None:
            continue
        got = (given[0] if isinstance(given, tuple) else given).float().numpy()
        got = got.transpose(0, 2, 3, 1) if key.startswith("conv") else got
        want = got.copy()
        want[...] = case.want()
        # bfloat16 keeps eight bits of a result.
        tolerance = 1e-2 if "bf16" in key else 1e-3
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max(), err_msg=key)


STAND_IN = """#!{python}
import json, sys
assert sys.argv[1].endswith("cpu_peer.py") and sys.argv[2] == "3"
for line in sys.stdin:
    request = json.loads(line)
    if "program" in request:
        assert "T.sblock(" in request["program"] and "s_tir=True" in request["program"]
        wide = request["arguments"][0][0] == [4, 4]
        print(json.dumps({{}} if wide else {{"failure": "no such thing"}}), flush=True)
    elif "number" in request:
        print(json.dumps({{"seconds": request["number"] * 0.5}}), flush=True)
    else:
        print(json.dumps({{"version": "0"}}), flush=True)
"""


def test_a_peer_takes_part(bench, race, tmp_path, capfd):
    stand_in = tmp_path / "python"
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    peer = race.Peer(str(stand_in), 3)
    try:
        run = peer.contender(tscript.testing.workloads.matmul(4, 4, 4).func)
        assert peer.version == "0" and run(4) == 2.0
        assert peer.contender(tscript.testing.workloads.matmul(8, 8, 8).func) is None
        assert "TVM: no such thing" in capfd.readouterr().err
        (result,) = bench.measure(["transpose_4096"], setting(bench, 1, peer))
        assert "tvm" not in result.rates
    finally:
        peer.close()


def test_a_peer_that_fails_is_reported(race, tmp_path):
    stand_in = tmp_path / "python"
    stand_in.write_text(f"#!{sys.executable}\nraise SystemExit(3)\n")
    stand_in.chmod(0o755)
    with pytest.raises(RuntimeError, match="the peer ended with status 3"):
        race.Peer(str(stand_in), 1)


def test_an_unknown_row_is_refused(bench, capsys):
    with pytest.raises(SystemExit):
        bench.main(["--only", "matmul_7"])
    assert "no row 'matmul_7'; choose from matmul_128" in capsys.readouterr().err
