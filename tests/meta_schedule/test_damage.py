"""Databases that are damaged, shortened, deleted or cannot be written, at rest and while they are used."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sqlite3
from contextlib import contextmanager

import pytest

from tests.meta_schedule.mock import Matmul as MockMatmul
from tests.meta_schedule.mock import MockBuilder, MockRunner, tiles
from tests.meta_schedule.test_database import TARGET, Matmul, record
from tscript import meta_schedule as ms
from tscript.cli.main import main
from tscript.meta_schedule.database import JSONDatabase, SQLiteDatabase, line_file
from tscript.meta_schedule.database.repair import check, repair

KINDS = ["json", "sqlite"]


def opened(kind, folder):
    return ms.database.Database.create(kind, work_dir=folder)


def filled(kind, folder, count: int):
    database = opened(kind, folder)
    for k in range(count):
        database.commit_tuning_record(record(database, [1.0 + k]))
    return database


def seconds(database) -> list[float]:
    return sorted(r.run_secs[0] for r in database.get_all_tuning_records())


def file_of(database):
    return database.path


def flip(path, at: int) -> None:
    with path.open("r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


def cut(path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def blank(path) -> None:
    os.truncate(path, 0)


def garbage(path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def flip_early(path) -> None:
    flip(path, 30)


def flip_middle(path) -> None:
    flip(path, path.stat().st_size // 2)


def delete(path) -> None:
    path.unlink()


def replace_by_itself(path) -> None:
    shutil.copy(path, f"{path}.copy")
    os.replace(f"{path}.copy", path)


def append_nonsense(path) -> None:
    with path.open("ab") as f:
        f.write(b"[0,[broken\n\xff\xfe\n")


@pytest.mark.parametrize(
    "damage", [cut, blank, garbage, flip_early, flip_middle, delete, replace_by_itself, append_nonsense]
)
@pytest.mark.parametrize("which", ["path_workload", "path_tuning_record"])
def test_lines_damaged_under_a_writer_are_written_again(tmp_path, damage, which, caplog):
    database = filled("json", tmp_path, 5)
    damage(getattr(database, which))
    database.commit_tuning_record(record(database, [9.0]))
    expected = [1.0, 2.0, 3.0, 4.0, 5.0, 9.0]
    assert seconds(database) == expected
    assert seconds(JSONDatabase(work_dir=tmp_path)) == expected
    assert database.unkept == 0
    if damage is not replace_by_itself:
        assert "database_" in caplog.text


@pytest.mark.parametrize("damage", [cut, blank, garbage, flip_early, delete, replace_by_itself])
def test_rows_damaged_under_a_writer_are_written_again(tmp_path, damage, caplog):
    database = filled("sqlite", tmp_path, 5)
    damage(database.path)
    database.commit_tuning_record(record(database, [9.0]))
    expected = [1.0, 2.0, 3.0, 4.0, 5.0, 9.0]
    assert seconds(database) == expected
    assert check(tmp_path).lost == []
    assert seconds(SQLiteDatabase(work_dir=tmp_path)) == expected
    if damage not in (replace_by_itself, flip_early):
        assert "database.sqlite" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_two_who_share_a_file_lose_nothing_when_it_is_deleted(tmp_path, kind):
    one = filled(kind, tmp_path, 3)
    two = opened(kind, tmp_path)
    two.commit_tuning_record(record(two, [7.0]))
    shutil.rmtree(tmp_path)
    two.commit_tuning_record(record(two, [8.0]))
    one.commit_tuning_record(record(one, [9.0]))
    expected = [1.0, 2.0, 3.0, 7.0, 8.0, 9.0]
    assert seconds(one) == seconds(two) == seconds(opened(kind, tmp_path)) == expected


@contextmanager
def files_end_at(size: int):
    """As on a full disk, no file of this process grows beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_do_not_fit_on_the_disk_wait_in_memory(tmp_path, kind, caplog):
    database = filled(kind, tmp_path, 3)
    with files_end_at(database.path.stat().st_size + 10):
        for secs in (0.5, 0.25):
            for _ in range(16):  # the last page of SQLite has room left
                database.commit_tuning_record(record(database, [secs]))
        assert database.unkept >= 4
        assert len(database) == 35
        assert database.query_tuning_record(Matmul, TARGET).run_secs == [0.25]
        assert len(opened(kind, tmp_path)) == 35 - database.unkept
    assert caplog.text.count("records stay in memory") == 1
    database.commit_tuning_record(record(database, [9.0]))
    assert database.unkept == 0
    assert "can be written again" in caplog.text
    assert seconds(opened(kind, tmp_path)) == seconds(database)
    assert len(database) == 36


def test_a_file_that_cannot_be_written_anew_is_so_later(tmp_path, caplog):
    database = filled("json", tmp_path, 5)
    size = database.path.stat().st_size
    cut(database.path)
    with files_end_at(size // 2):
        database.commit_tuning_record(record(database, [9.0]))
        assert len(database) == 6
    assert "records stay in memory" in caplog.text
    assert seconds(database) == seconds(JSONDatabase(work_dir=tmp_path)) == [1.0, 2.0, 3.0, 4.0, 5.0, 9.0]


class Vandal(MockRunner):
    """Damages the database before each batch, in another way each time."""

    def __init__(self, path, damages) -> None:
        self.path = path
        self.damages = list(damages)

    def run(self, runner_inputs):
        if self.damages:
            self.damages.pop(0)(self.path)
        return super().run(runner_inputs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on_over_a_database_that_is_damaged_again_and_again(tmp_path, kind):
    name = "database.sqlite" if kind == "sqlite" else "database_tuning_record.json"
    damages = [lambda _: None, cut, garbage, delete, flip_early, blank]
    database = ms.tune_tir(
        MockMatmul, TARGET, str(tmp_path), 28, num_trials_per_iter=4, seed=3, cost_model="random", database=kind,
        space=ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={}),
        builder=MockBuilder(), runner=Vandal(tmp_path / name, damages), num_tuning_cores=1,
    )  # fmt: skip
    assert len(database) == 28
    assert len(opened(kind, tmp_path)) == 28
    assert list(tmp_path.glob("*.damaged"))


def test_a_run_on_a_full_disk_returns_what_it_has_and_says_so(tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(line_file, "_write", full)
    database = ms.tune_tir(
        MockMatmul, TARGET, str(tmp_path), 8, num_trials_per_iter=4, seed=3, cost_model="random",
        space=ms.space_generator.ScheduleFn(tiles, sch_rules=[], postprocs=[], mutator_probs={}),
        builder=MockBuilder(), runner=MockRunner(), num_tuning_cores=1,
    )  # fmt: skip
    assert len(database) == 8
    assert database.unkept == 8
    assert "could not be written: they are in the database that this run returns" in capsys.readouterr().out


# -- repair ---------------------------------------------------------------------------------------


def test_a_database_without_damage_is_left_alone(tmp_path):
    for kind in KINDS:
        path = filled(kind, tmp_path / kind, 3).path
        before = path.read_bytes()
        assert check(tmp_path / kind) == repair(tmp_path / kind)
        assert repair(tmp_path / kind).kept == 3
        assert repair(tmp_path / kind).lost == []
        assert path.read_bytes() == before
        assert not list((tmp_path / kind).glob("*.damaged"))


def test_rows_are_read_from_pages_where_the_head_of_the_file_is_gone(tmp_path):
    path = filled("sqlite", tmp_path, 40).path
    with path.open("r+b") as f:
        f.write(b"\0" * 100)
    with pytest.raises(ValueError, match=r"file is not a database.*db repair"):
        SQLiteDatabase(path)
    assert check(path).kept == 40
    done = repair(path)
    assert done.kept == 40
    assert "not a database" in done.lost[0]
    again = SQLiteDatabase(path)
    assert seconds(again) == [1.0 + k for k in range(40)]
    assert again.query_schedule(Matmul, TARGET) is not None
    assert path.with_name("database.sqlite.damaged").exists()


def test_what_a_damaged_page_held_is_named_and_the_rest_is_kept(tmp_path):
    path = filled("sqlite", tmp_path, 40).path
    whole = path.read_bytes()
    lost = 0
    for page in range(2, len(whole) // 4096):
        damaged = bytearray(whole)
        damaged[page * 4096 : (page + 1) * 4096] = os.urandom(4096)
        path.write_bytes(damaged)
        done = repair(path)
        gone = 40 - done.kept
        assert gone <= 12
        assert seconds(SQLiteDatabase(path)) == sorted(seconds(SQLiteDatabase(path)))
        assert len(SQLiteDatabase(path)) == done.kept
        lost += gone
    assert 40 <= lost  # each record lies on a page (or on several)


def test_a_row_with_a_changed_byte_is_lost_alone(tmp_path):
    path = filled("sqlite", tmp_path, 10).path
    with sqlite3.connect(path) as c:
        line = c.execute("SELECT line FROM record WHERE id = 4").fetchone()[0]
        c.execute("UPDATE record SET line = ? WHERE id = 4", (line.replace("Split", "Spilt"),))
    with pytest.raises(ValueError, match=r"record 4 cannot be read: its check sum does not fit"):
        SQLiteDatabase(path)
    assert [r for r in check(path).lost if "record 4: its check sum" in r]
    done = repair(path)
    assert (done.kept, len(done.lost)) == (9, 1)
    assert len(SQLiteDatabase(path)) == 9


def test_a_file_cut_short_keeps_what_lies_before(tmp_path):
    path = filled("sqlite", tmp_path, 40).path
    os.truncate(path, path.stat().st_size - 2 * 4096)
    done = repair(path)
    assert 10 <= done.kept < 40
    assert len(SQLiteDatabase(path)) == done.kept


@pytest.mark.parametrize("kind", KINDS)
def test_records_survive_their_workload(tmp_path, kind):
    path = filled(kind, tmp_path, 6).path
    if kind == "json":
        flip(path.with_name("database_workload.json"), 200)
    else:
        with sqlite3.connect(path) as c:
            c.execute("UPDATE workload SET line = 'x' || line")
    with pytest.raises(ValueError, match="cannot be read"):
        opened(kind, tmp_path)
    assert repair(tmp_path).kept == 6
    assert opened(kind, tmp_path).query_schedule(Matmul, TARGET) is not None


def test_damaged_files_are_put_aside_one_by_one(tmp_path):
    for _ in range(2):
        append_nonsense(filled("json", tmp_path, 2).path)
        assert len(repair(tmp_path).lost) == 2
    assert (tmp_path / "database_tuning_record.json.damaged.2").exists()
    assert len(JSONDatabase(work_dir=tmp_path)) == 4


def test_the_commands_check_and_repair(tmp_path, capsys):
    path = filled("sqlite", tmp_path, 5).path
    assert main(["db", "check", str(path)]) == 0
    assert "5 records can be read" in capsys.readouterr().out
    flip(path, 0)
    assert main(["db", "check", str(tmp_path)]) == 1
    assert main(["db", "show", str(path)]) == 1
    assert "db repair" in capsys.readouterr().err
    assert main(["db", "repair", str(path)]) == 0
    assert "5 records kept" in capsys.readouterr().out
    assert main(["db", "check", str(path)]) == 0
    assert main(["db", "check", str(tmp_path / "nothing")]) == 1
