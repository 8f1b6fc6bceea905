"""The commands that tune a file's kernels and look after databases."""

from __future__ import annotations

import pytest

from tscript.cli.main import main
from tscript.meta_schedule.database import JSONDatabase, SQLiteDatabase

KERNEL = """\
from tscript.script import tir as T

@T.prim_func
def scale(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(64, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0 + 1.0
"""
TARGET = "llvm -num-cores 1"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "kernel.py").write_text(KERNEL)
    arguments = ["tune", f"{folder / 'kernel.py'}:scale", "--target", TARGET, "--trials", "3", "--quiet"]
    assert main([*arguments, "--work-dir", str(folder / "work"), "--seed", "1"]) == 0
    return folder


def test_a_tuned_kernel_is_found_again(tuned, capsys):
    program = f"{tuned / 'kernel.py'}:scale"
    assert main(["db", "query", str(tuned / "work"), program, "--target", TARGET]) == 0
    shown = capsys.readouterr().out
    assert "scale: " in shown
    assert "def apply_trace(sch: tir.Schedule)" in shown
    assert main(["db", "query", str(tuned / "work"), program, "--target", "llvm -num-cores 7"]) == 1
    assert main(["db", "show", str(tuned / "work")]) == 0
    shown = capsys.readouterr().out
    assert "float32 64x64" in shown
    assert "-num-cores=1" in shown


def test_records_move_between_forms(tuned, tmp_path, capsys):
    count = len(JSONDatabase(work_dir=tuned / "work"))
    assert main(["db", "import", str(tmp_path / "all.sqlite"), str(tuned / "work")]) == 0
    assert len(SQLiteDatabase(tmp_path / "all.sqlite")) == count
    assert main(["db", "merge", str(tmp_path / "all.sqlite"), str(tuned / "work"), str(tuned / "work")]) == 0
    assert "0 records added" in capsys.readouterr().out
    assert main(["db", "export", str(tmp_path / "all.sqlite"), str(tmp_path / "text")]) == 0
    assert len(JSONDatabase(work_dir=tmp_path / "text")) == count
    assert main(["db", "prune", str(tmp_path / "text"), str(tmp_path / "best")]) == 0
    best = JSONDatabase(work_dir=tmp_path / "best").get_all_tuning_records()
    assert len(best) == 1
    assert best[0].mean_secs == min(r.mean_secs for r in JSONDatabase(work_dir=tuned / "work").get_all_tuning_records())


def test_a_damaged_database_is_repaired(tuned, tmp_path, capsys):
    main(["db", "export", str(tuned / "work"), str(tmp_path)])
    count = len(JSONDatabase(work_dir=tmp_path))
    path = tmp_path / "database_tuning_record.json"
    path.write_text("{half a li\n" + path.read_text())
    assert main(["db", "show", str(tmp_path)]) == 1
    assert "repair" in capsys.readouterr().err
    assert main(["db", "repair", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "lost: database_tuning_record.json:1:" in shown
    assert len(JSONDatabase(work_dir=tmp_path)) == count
    assert path.with_name("database_tuning_record.json.damaged").exists()


def test_what_is_missing_is_named(tmp_path, capsys):
    for action in ("show", "repair"):
        assert main(["db", action, str(tmp_path)]) == 1
        assert "there is no database file" in capsys.readouterr().err
    (tmp_path / "kernel.py").write_text(KERNEL)
    assert main(["tune", str(tmp_path / "kernel.py"), "--trials", "-1", "--work-dir", str(tmp_path / "w")]) == 1
    assert "max_trials_global is a number of at least 0" in capsys.readouterr().err


ODD = (
    KERNEL
    + """
@T.prim_func
def any_size(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    for i in range(n):
        with T.block("a"):
            vi = T.axis.spatial(n, i)
            A[vi] = 1.0

number = 3
"""
)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (":nothing", [], "defines no kernel called 'nothing'; it defines: scale, any_size"),
        (":number", [], "defines no kernel called 'number'"),
        (":any_size", [], "the shape of A is not constant"),
        (":scale", ["--target", "abacus"], "unknown target kind 'abacus'"),
        (":scale", ["--trials", "-1"], "max_trials_global is a number of at least 0"),
        (":scale", ["--work-dir", "FILE"], "cannot write to"),
    ],
)
def test_what_cannot_be_tuned_is_one_line(name, options, message, tmp_path, capsys):
    path = tmp_path / "kernel.py"
    path.write_text(ODD)
    given = ["--work-dir", str(tmp_path / "work"), "--target", TARGET, "--trials", "2", "--quiet"]
    given += [str(path / "in_a_file") if o == "FILE" else o for o in options]
    assert main(["tune", f"{path}{name}", *given]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_one_kernel_that_cannot_be_tuned_leaves_the_others(tmp_path, capsys):
    path = tmp_path / "kernel.py"
    path.write_text(ODD)
    given = ["--work-dir", str(tmp_path / "work"), "--target", TARGET, "--trials", "2", "--quiet"]
    assert main(["tune", str(path), *given]) == 1
    shown = capsys.readouterr().out
    assert "scale: " in shown
    assert "best of 2 records" in shown
    assert "any_size: the shape of A is not constant" in shown


def test_no_trials_find_nothing(tmp_path, capsys):
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    assert main(["tune", str(path), "--work-dir", str(tmp_path), "--target", TARGET, "--trials", "0", "--quiet"]) == 1
    assert "no schedule was found" in capsys.readouterr().out
