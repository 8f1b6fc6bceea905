"""Compiled code on disk: used again where nothing changed, never where anything did."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tscript
from tscript.codegen.llvm.cache import cache_info, clear_cache, trim
from tscript.script import tir as T
from tscript.support.config import configure


@pytest.fixture
def folder(tmp_path):
    with configure(cache=str(tmp_path / "code")):
        yield tmp_path / "code"


def scale(factor: float = 2.0):
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * T.float32(factor)

    return func


def run(lib, factor: float = 2.0) -> None:
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    lib(a, b)
    np.testing.assert_array_equal(b, a * np.float32(factor))


def counts() -> tuple[int, int]:
    info = cache_info()
    return info.hits, info.misses


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.code"))


def test_the_second_build_loads(folder):
    hits, misses = counts()
    run(tscript.build(scale()))
    assert counts() == (hits, misses + 1)
    (entry,) = entries(folder)
    lib = tscript.build(scale())
    assert counts() == (hits + 1, misses + 1)
    run(lib)
    assert "fmul" in lib.get_source("ll")
    with pytest.raises(TypeError, match="argument"):
        lib(np.zeros(3, "float32"), np.zeros(8, "float32"))
    assert entries(folder) == [entry]
    assert clear_cache() == 1
    assert entries(folder) == []


def test_whatever_changes_the_code_is_compiled_anew(folder):
    builds = [
        lambda: tscript.build(scale(2.0)),
        lambda: tscript.build(scale(3.0)),
        lambda: tscript.build(scale(2.0), target="llvm -mcpu=x86-64"),
        lambda: tscript.build(scale(2.0), target="llvm -opt-level=1"),
        lambda: tscript.build(scale(2.0), name="other"),
    ]
    for k, build in enumerate(builds):
        hits, misses = counts()
        run(build(), 3.0 if k == 1 else 2.0)
        assert counts() == (hits, misses + 1)
    hits, misses = counts()
    for k, build in enumerate(builds):
        run(build(), 3.0 if k == 1 else 2.0)
    assert counts() == (hits + len(builds), misses)


def test_another_process_uses_what_this_one_compiled(folder):
    run(tscript.build(scale()))
    root = str(Path(__file__).resolve().parents[2])
    code = f"""
import sys
sys.path.insert(0, {root!r})
import tscript
from tests.codegen.test_cache import run, scale
from tscript.codegen.llvm.cache import cache_info
from tscript.support.config import configure
with configure(cache={str(folder)!r}):
    run(tscript.build(scale()))
    print(cache_info().hits, cache_info().misses)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0"]


@pytest.mark.parametrize(
    "damage",
    [lambda d: d[:-9], lambda d: b"", lambda d: d[:60] + bytes([d[60] ^ 1]) + d[61:], lambda d: b"ELF" + d[3:]],
)
def test_a_damaged_entry_is_compiled_anew(folder, damage):
    run(tscript.build(scale()))
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    hits, misses = counts()
    before = cache_info().damaged
    run(tscript.build(scale()))
    assert counts() == (hits, misses + 1)
    assert cache_info().damaged == before + 1
    assert len(entry.read_bytes()) == len(whole)
    run(tscript.build(scale()))
    assert counts() == (hits + 1, misses + 1)


def test_a_folder_that_cannot_be_used_costs_nothing_but_time(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with configure(cache=str(tmp_path / "file")):
        failed = cache_info().failed
        run(tscript.build(scale()))
        assert cache_info().failed == failed + 1


def test_off_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for word in ("off", "0", ""):
        monkeypatch.setenv("TSCRIPT_CACHE", word)
        run(tscript.build(scale()))
        assert list(tmp_path.iterdir()) == []
        assert cache_info().folder is None
    monkeypatch.setenv("TSCRIPT_CACHE", "auto")
    run(tscript.build(scale()))
    assert len(entries(tmp_path / "tscript")) == 1


def test_what_was_not_used_for_longest_goes_first(folder):
    run(tscript.build(scale(2.0)))
    (first,) = entries(folder)
    run(tscript.build(scale(3.0)), 3.0)
    second = next(e for e in entries(folder) if e != first)
    os.utime(first, (1, 1))
    trim(folder, second.stat().st_size)
    assert entries(folder) == [second]
    trim(folder, 0)
    assert entries(folder) == []


def test_threads_share_the_folder(folder):
    def work(k: int) -> None:
        with configure(cache=str(folder)):
            run(tscript.build(scale(k % 3 + 1.0)), k % 3 + 1.0)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(12)))
    assert len(entries(folder)) == 3
