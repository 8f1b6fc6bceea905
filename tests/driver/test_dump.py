"""The setting `dump` writes every step of a build as a program that can be read back."""

from __future__ import annotations

import re

import pytest

import tscript
from tscript.driver.dump import split_setting
from tscript.ir.structural import assert_structural_equal
from tscript.lower.pipeline import CPU_PIPELINE
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.config import configure


@I.ir_module
class Program:
    @T.prim_func
    def total(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 4):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]

    @T.prim_func(private=True)
    def twice(x: T.int32) -> T.int32:
        return x * 2


def test_each_pass_of_each_function_leaves_a_numbered_file(tmp_path):
    with configure(dump=str(tmp_path)):
        tscript.build(Program, target="llvm")
    for name in ("total", "twice"):
        found = sorted(p.stem for p in (tmp_path / name).glob("*.py"))
        assert found == [f"{n:02d}_{p}" for n, p in enumerate(["start", *(p.name for p in CPU_PIPELINE)])]
    assert "define" in (tmp_path / "module.ll").read_text(encoding="utf-8")


def test_what_is_written_reads_back(tmp_path):
    with configure(dump=str(tmp_path)):
        lowered = tscript.driver.lower(Program)
    first = tscript.script.from_source((tmp_path / "total" / "00_start.py").read_text(encoding="utf-8"))
    assert_structural_equal(first, Program["total"])
    last = sorted((tmp_path / "total").glob("*.py"))[-1]
    again = tscript.script.from_source(last.read_text(encoding="utf-8"), check_well_formed=False)
    assert_structural_equal(again, lowered["total"])


def test_the_difference_to_the_step_before_is_beside(tmp_path):
    with configure(dump=str(tmp_path)):
        tscript.driver.lower(Program)
    [difference] = (tmp_path / "total").glob("*_lower_init.diff")
    text = difference.read_text(encoding="utf-8")
    assert re.search(r"^-\s+with T.init\(\):$", text, re.M)
    assert not list((tmp_path / "total").glob("00_*.diff"))


def test_a_pattern_chooses_passes(tmp_path):
    with configure(dump=f"{tmp_path}:flatten*"):
        tscript.build(Program, target="llvm")
    assert {p.stem[3:] for p in tmp_path.rglob("*.py")} == {"flatten_buffers"}
    assert not (tmp_path / "module.ll").exists()


def test_nothing_is_written_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TSCRIPT_DUMP", raising=False)
    tscript.build(Program, target="llvm")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("setting", "folder", "pattern"),
    [("out", "out", "*"), ("out:lower_*", "out", "lower_*"), ("out:", "out", "*"), (r"C:\out", r"C:\out", "*")],
)
def test_the_setting_is_a_folder_and_a_pattern(setting, folder, pattern):
    found = split_setting(setting)
    assert (str(found[0]), found[1]) == (folder, pattern)
