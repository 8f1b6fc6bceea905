"""Databases: what is kept, how it is found again, and what becomes of it when writers die."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tscript
from tscript import meta_schedule as ms
from tscript.ir.json_io import save_json
from tscript.ir.structural import structural_equal
from tscript.meta_schedule.database import (
    JSONDatabase,
    MemoryDatabase,
    OrderedUnionDatabase,
    ScheduleFnDatabase,
    SQLiteDatabase,
    TuningRecord,
    UnionDatabase,
)
from tscript.schedule import Schedule
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.target import Target

TARGET = Target("llvm -num-cores 1")
OTHER = Target("llvm -mcpu=skylake -num-cores 1")


@I.ir_module
class Matmul:
    @T.prim_func
    def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, j, k in T.grid(16, 16, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@I.ir_module
class MatmulRelu:
    @T.prim_func
    def main(X: T.Buffer((16, 16), "float32"), Y: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": True})
        E = T.alloc_buffer((16, 16))
        for i, j, k in T.grid(16, 16, 16):
            with T.block("E"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    E[vi, vj] = 0.0
                E[vi, vj] = E[vi, vj] + X[vi, vk] * Y[vk, vj]
        for i, j in T.grid(16, 16):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(E[vi, vj], 0.0)


@I.ir_module
class Copy:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]


def scheduled(mod=Matmul, factor: int = 4) -> Schedule:
    sch = Schedule(mod)
    i, _j, k = sch.get_loops(sch.get_block("C" if mod is Matmul else "E"))
    sch.split(i, [None, factor])
    sch.decompose_reduction(sch.get_block("C" if mod is Matmul else "E"), k)
    return sch


def record(database, secs, *, factor: int = 4, target=TARGET, error: str = "") -> TuningRecord:
    trace = scheduled(factor=factor).trace
    args = ms.arg_info.ArgInfo.from_entry_func(Matmul)
    return TuningRecord(trace, database.commit_workload(Matmul), secs, target, args, error=error)


@pytest.fixture(params=["memory", "json", "sqlite"])
def database(request, tmp_path):
    options = {} if request.param == "memory" else {"work_dir": tmp_path}
    return ms.database.Database.create(request.param, **options)


def reopened(database):
    """What another process would see."""
    if isinstance(database, MemoryDatabase):
        return database
    if isinstance(database, SQLiteDatabase):
        return SQLiteDatabase(database.path)
    return JSONDatabase(database.path_workload, database.path_tuning_record)


def test_what_is_committed_is_found(database):
    assert not database.has_workload(Matmul)
    assert database.query_schedule(Matmul, TARGET) is None
    first = database.commit_workload(Matmul)
    assert database.commit_workload(Matmul) is first
    database.commit_tuning_record(record(database, [3e-3, 1e-3], factor=2))
    database.commit_tuning_record(record(database, [1.5e-3], factor=8))
    database.commit_tuning_record(record(database, [1e10], factor=4, error="it crashed"))
    for db in (database, reopened(database)):
        assert db.has_workload(Matmul)
        assert not db.has_workload(Copy)
        assert len(db) == 3
        workload = db.commit_workload(Matmul)
        assert [r.mean_secs for r in db.get_top_k(workload, 5)] == [1.5e-3, 2e-3]
        assert [r.mean_secs for r in db.get_top_k(workload, 1)] == [1.5e-3]
        assert db.get_top_k(workload, 0) == []
        best = db.query(Matmul, TARGET, kind="record")
        assert best.run_secs == [1.5e-3]
        assert best.target == TARGET
        assert [a.as_json() for a in best.args_info] == [["TENSOR", "float32", [16, 16]]] * 3
        sch = db.query_schedule(Matmul, TARGET)
        assert structural_equal(sch.mod, scheduled(factor=8).mod)
        assert str(sch.trace) == str(scheduled(factor=8).trace)
        assert structural_equal(db.query_ir_module(Matmul, TARGET), sch.mod)
        assert [r.error for r in db.get_all_tuning_records()] == ["", "", "it crashed"]
        assert structural_equal(best.as_measure_candidate().sch.mod, sch.mod)
    with pytest.raises(ValueError, match="kind is one of 'schedule', 'record', 'ir_module', not 'code'"):
        database.query(Matmul, TARGET, kind="code")
    with pytest.raises(TypeError, match="TuningRecord is committed"):
        database.commit_tuning_record(3)


def test_records_belong_to_a_target(database, caplog):
    database.commit_tuning_record(record(database, [1e-3], target=OTHER))
    assert database.query_schedule(Matmul, TARGET) is None
    assert "not for llvm" in caplog.text and "skylake" in caplog.text
    assert database.query_schedule(Matmul, OTHER) is not None
    workload = database.commit_workload(Matmul)
    assert len(database.get_top_k(workload, 9)) == 1
    assert database.get_top_k(workload, 9, TARGET) == []


def test_a_function_alone_is_found_as_its_module(database):
    func = Matmul["main"]
    database.commit_tuning_record(record(database, [1e-3]))
    assert database.has_workload(func)
    assert database.query_schedule(func, TARGET) is not None


def test_a_record_of_a_workload_of_elsewhere_is_kept(database):
    elsewhere = MemoryDatabase()
    database.commit_tuning_record(record(elsewhere, [1e-3]))
    assert database.query_tuning_record(Matmul, TARGET) is not None
    assert len(reopened(database)) == 1


def test_current_is_the_innermost_entered(database):
    assert ms.database.Database.current() is None
    with database, MemoryDatabase() as inner:
        assert ms.database.Database.current() is inner
    assert ms.database.Database.current() is None
    with database as entered, database:
        assert entered is database is ms.database.Database.current()


def test_unions():
    fast, slow = MemoryDatabase(), MemoryDatabase()
    fast.commit_tuning_record(record(fast, [1e-3], factor=8))
    slow.commit_tuning_record(record(slow, [2e-3], factor=2))
    for order in ((fast, slow), (slow, fast)):
        both = UnionDatabase(*order)
        assert both.query_tuning_record(Matmul, TARGET).run_secs == [1e-3]
        assert structural_equal(both.query_schedule(Matmul, TARGET).mod, scheduled(factor=8).mod)
        first = OrderedUnionDatabase(MemoryDatabase(), *order)
        assert first.query_tuning_record(Matmul, TARGET) is order[0].query_tuning_record(Matmul, TARGET)
        assert first.query_schedule(Matmul, TARGET) is not None
        assert first.query_schedule(Copy, TARGET) is None
    assert len(UnionDatabase(fast, slow)) == 2
    with pytest.raises(NotImplementedError, match="only answers queries"):
        UnionDatabase(fast).commit_workload(Matmul)


def test_a_function_in_place_of_records():
    def tile(sch: Schedule) -> bool:
        if "C" not in sch.mod.script():
            return False
        sch.split(sch.get_loops("C")[0], [None, 4])
        return True

    database = ScheduleFnDatabase(tile)
    assert structural_equal(
        database.query_ir_module(Matmul, TARGET), database.query_schedule(Matmul["main"], TARGET).mod
    )
    assert database.query_tuning_record(Matmul, TARGET).run_secs is None
    with pytest.raises(NotImplementedError, match="keeps no records"):
        len(database)


def test_the_anchor_block_carries_a_schedule_over():
    database = MemoryDatabase(module_equality="anchor-block")
    database.commit_tuning_record(record(database, [1e-3]))
    assert database.has_workload(MatmulRelu)
    sch = database.query_schedule(MatmulRelu, TARGET)
    assert [sch.get(x).extent.value for x in sch.get_loops("E_update")] == [4, 4, 16, 16]
    assert tscript.compare(MatmulRelu, sch.mod)
    assert not database.has_workload(Copy)
    assert not MemoryDatabase().has_workload(MatmulRelu)


def test_values_of_constants_may_be_ignored():
    def with_constant(value: float):
        @T.prim_func
        def func(A: T.Buffer((2,), "float32")):
            T.func_attr({"tir.noalias": True})
            K = T.allocate_const([value, 2.0], "float32", [2])
            k = T.Buffer((2,), "float32", data=K)
            for i in range(2):
                with T.block("A"):
                    v = T.axis.spatial(2, i)
                    A[v] = k[v]

        return func

    strict, loose = MemoryDatabase(), MemoryDatabase(module_equality="ignore-ndarray")
    for database in (strict, loose):
        database.commit_workload(with_constant(1.0))
    assert not strict.has_workload(with_constant(3.0))
    assert loose.has_workload(with_constant(3.0))
    with pytest.raises(ValueError, match="module_equality is one of 'structural'"):
        MemoryDatabase(module_equality="vaguely")


# -- files ----------------------------------------------------------------------------------------


def test_files_written_by_hand_are_read(tmp_path):
    module = base64.b64encode(save_json(Matmul, spans=False).encode()).decode()
    (tmp_path / "database_workload.json").write_text(json.dumps(["17", module]) + "\n")
    trace = [
        [
            ["GetBlock", [], ["C", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
            ["SamplePerfectTile", ["l1"], [2, 64], ["v4", "v5"]],
            ["Split", ["l1", "v4", "v5"], [1, 0], ["l6", "l7"]],
            ["EnterPostproc", [], [], []],
        ],
        [[2, [2, 8]]],
    ]
    target = {"kind": "llvm", "tag": "", "keys": ["cpu"], "num-cores": 1}
    values = [0, [trace, [0.00042], target, [["TENSOR", "float32", [16, 16]]]]]
    (tmp_path / "database_tuning_record.json").write_text(json.dumps(values) + "\n")
    database = JSONDatabase(work_dir=tmp_path)
    sch = database.query_schedule(Matmul, TARGET)
    assert [sch.get(x).extent.value for x in sch.get_loops("C")] == [2, 8, 16, 16]
    (again,) = [json.loads(line) for line in _lines(tmp_path / "database_tuning_record.json")]
    assert again == values


def test_the_lines_of_a_record(tmp_path):
    database = JSONDatabase(work_dir=tmp_path)
    database.commit_tuning_record(record(database, [0.1 + 0.2]))
    (line,) = _lines(tmp_path / "database_tuning_record.json")
    number, (trace, secs, target, args), extra = json.loads(line)
    assert (number, secs, args) == (0, [0.30000000000000004], [["TENSOR", "float32", [16, 16]]] * 3)
    assert trace == scheduled().trace.as_json()
    assert Target(target) == TARGET
    assert set(extra) == {"crc"}
    assert " " not in line.replace('"main"', "")
    (line,) = _lines(tmp_path / "database_workload.json")
    shash, module, _ = json.loads(line)
    assert shash.isdecimal()
    assert base64.b64decode(module)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.replace('"Split"', '"Spilt"'), "check sum does not fit"),
        (lambda t: t[:40] + "\n", "it is no JSON"),
        (lambda t: '{"a": 1}\n', "it is no list"),
        (lambda t: "[0]\n", "it has 1 values instead of 2"),
        (lambda t: "[7, [[], null, null, null]]\n", "a record of workload 7, and there are 1"),
        (lambda t: "[0, [[[], []], [true], null, null]]\n", "run_secs is a list of seconds"),
        (lambda t: '[0, [[[], []], null, {"kind": "abacus"}, null]]\n', "abacus"),
        (lambda t: '[0, [[[], []], null, null, [["SCALAR", "int32"]]]]\n', "an argument is"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, damage, message):
    database = JSONDatabase(work_dir=tmp_path)
    database.commit_tuning_record(record(database, [1e-3]))
    database.commit_tuning_record(record(database, [2e-3]))
    path = tmp_path / "database_tuning_record.json"
    first, second = path.read_text().splitlines(keepends=True)
    path.write_text(first + damage(second))
    with pytest.raises(ValueError, match=f"(?s)database_tuning_record.json:2: .*{message}"):
        JSONDatabase(work_dir=tmp_path)


def test_a_line_that_was_never_finished_is_dropped(tmp_path):
    database = JSONDatabase(work_dir=tmp_path)
    database.commit_tuning_record(record(database, [1e-3]))
    path = tmp_path / "database_tuning_record.json"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    again = JSONDatabase(work_dir=tmp_path)
    assert len(again) == 1
    again.commit_tuning_record(record(again, [5e-4]))
    assert len(JSONDatabase(work_dir=tmp_path)) == 2
    assert path.read_bytes().startswith(whole)


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no database file"):
        JSONDatabase(work_dir=tmp_path, allow_missing=False)
    with pytest.raises(ValueError, match="needs a work_dir"):
        JSONDatabase()
    with pytest.raises(ValueError, match="needs a path or a work_dir"):
        SQLiteDatabase()
    (tmp_path / "x.sqlite").write_text("This is no database at all, but a text that is long enough to be one." * 30)
    with pytest.raises(ValueError, match=r"x\.sqlite cannot be used as a database"):
        SQLiteDatabase(tmp_path / "x.sqlite")


WRITER = """
import sys
sys.path.insert(0, {root!r})
from tests.meta_schedule.test_database import record
from tscript import meta_schedule as ms
database = ms.database.Database.create({kind!r}, work_dir={folder!r})
for k in range({count}):
    database.commit_tuning_record(record(database, [{first} + k * 1e-6]))
    print(k, flush=True)
"""
ROOT = str(Path(__file__).resolve().parents[2])


def _writer(kind, folder, count, first) -> subprocess.Popen:
    code = WRITER.format(root=ROOT, kind=kind, folder=str(folder), count=count, first=first)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kind", ["json", "sqlite"])
def test_two_processes_share_a_database(tmp_path, kind):
    here = ms.database.Database.create(kind, work_dir=tmp_path)
    with _writer(kind, tmp_path, 25, 1.0) as one, _writer(kind, tmp_path, 25, 2.0) as two:
        for k in range(25):
            here.commit_tuning_record(record(here, [3.0 + k * 1e-6]))
        for writer in (one, two):
            writer.communicate(timeout=60)
    assert (one.returncode, two.returncode) == (0, 0)
    for database in (here, ms.database.Database.create(kind, work_dir=tmp_path)):
        assert len(database) == 75
        assert len(database.get_all_workloads()) == 1
        assert database.query_tuning_record(Matmul, TARGET).run_secs == [1.0]


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
@pytest.mark.parametrize("kind", ["json", "sqlite"])
def test_a_killed_writer_loses_at_most_what_it_was_writing(tmp_path, kind):
    acknowledged = 0
    for round_ in range(4):
        with _writer(kind, tmp_path, 100000, round_ + 1.0) as writer:
            assert writer.stdout is not None
            done = 0
            for _ in range(10 + 7 * round_):
                done = int(writer.stdout.readline()) + 1
            time.sleep(0.001 * round_)
            writer.send_signal(signal.SIGKILL)
            done += writer.stdout.read().count("\n")
            # Its pipe is closed before the file of the database is let go.
            writer.wait(timeout=60)
        acknowledged += done
        database = ms.database.Database.create(kind, work_dir=tmp_path)
        # One that was kept as its writer died may not have been told of.
        assert acknowledged <= len(database) <= acknowledged + 1
        acknowledged = len(database)
        assert database.query_schedule(Matmul, TARGET) is not None
