"""Building: modules, targets, sources, timing, threads."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tscript
from tscript.driver import build, lower
from tscript.runtime import BenchmarkResult
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import BuildError
from tscript.target.target import Target


@T.prim_func
def add_one(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.func_attr({"global_symbol": "add_one", "tir.noalias": True})
    for i in range(64):
        B[i] = A[i] + T.float32(1)


def test_a_function_is_built_under_its_name_and_is_the_entry() -> None:
    lib = build(add_one, target="llvm")
    a, b = np.zeros(64, np.float32), np.zeros(64, np.float32)
    lib(a, b)
    lib["add_one"](b, a)
    assert a[0] == 2 and lib.entry_name == "add_one" and lib.entry_func is lib["add_one"]
    assert "add_one" in lib and lib.implements_function("add_one") and not lib.implements_function("x")
    with pytest.raises(AttributeError, match="no function 'add_won'; did you mean 'add_one'"):
        lib["add_won"]


def test_sources_are_llvm_ir_and_assembly() -> None:
    lib = build(add_one)
    assert "define" in lib.get_source() and lib.get_source("ll") == lib.get_source()
    assert "ret" in lib.get_source("asm") and "define" not in lib.get_source("asm")
    with pytest.raises(ValueError, match="format 'c'"):
        lib.get_source("c")


def test_the_target_chooses_the_cpu_the_features_and_the_level() -> None:
    plain = build(add_one, "llvm -mcpu=x86-64" if "x86" in __import__("platform").machine() else "llvm")
    assert "zmm" not in plain.get_source("asm")
    slow = build(add_one, Target("llvm -opt-level=0"))
    a, b = np.zeros(64, np.float32), np.zeros(64, np.float32)
    slow(a, b)
    assert b[0] == 1
    with Target("llvm -opt-level=1"):
        assert build(add_one).type_key == "llvm"
    with pytest.raises(BuildError, match="no code generator for target 'cuda'"):
        build(add_one, "cuda")
    with pytest.raises(ValueError, match="unknown target kind 'lvm'.*did you mean 'llvm'"):
        build(add_one, "lvm")


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(TypeError, match="a str cannot be built; pass a function"):
        build("add_one")
    with pytest.raises(TypeError, match="None cannot be built"):
        build(None)


def test_private_functions_are_not_offered() -> None:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def helper(x: T.int32) -> T.int32:
            return x + 1

        @T.prim_func
        def first(x: T.int32) -> T.int32:
            return Module.helper(x)

        @T.prim_func
        def second(x: T.int32) -> T.int32:
            return Module.helper(x) + 1

    lib = build(Module)
    assert lib.names == ("first", "second") and lib["second"](1) == 3
    with pytest.raises(AttributeError, match="no single entry function; choose one of first, second"):
        lib(1)


def test_timing_reports_seconds_for_each_repeat() -> None:
    lib = build(add_one)
    a, b = np.zeros(64, np.float32), np.zeros(64, np.float32)
    seen = []
    timer = lib.time_evaluator(
        "add_one",
        tscript.cpu(),
        number=3,
        repeat=4,
        min_repeat_ms=1,
        cache_flush_bytes=1 << 16,
        f_preproc=lambda *xs: seen.append(len(xs)),
    )
    result = timer(a, b)
    assert isinstance(result, BenchmarkResult) and len(result.results) == 4 and seen == [2] * 4
    assert 0 < result.min <= result.median <= result.max < 0.1 and result.std >= 0
    assert result.min <= result.mean <= result.max
    assert str(result).startswith(
        "Execution time summary:\n mean (ms)   median (ms)    max (ms)     min (ms)     std (ms)  \n"
    )
    with pytest.raises(TypeError, match="argument 1 `A`"):
        timer(a.astype(np.float64), b)
    with pytest.raises(ValueError, match="unknown f_preproc"):
        lib.time_evaluator("add_one", f_preproc="nothing")


def test_many_threads_build_and_run_different_kernels() -> None:
    def kernel(k: int):
        @T.prim_func
        def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
            for i in range(16):
                B[i] = A[i] * k + i // (k + 1)

        return main

    programs = [[kernel(8 * t + k) for k in range(8)] for t in range(8)]
    failures: list[object] = []

    def work(t: int) -> None:
        a, b = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
        for k, program in enumerate(programs[t]):
            try:
                build(program)(a, b)
                n = 8 * t + k
                if b.tolist() != [i * n + i // (n + 1) for i in range(16)]:
                    failures.append((t, k, b.tolist()))
            except Exception as e:
                failures.append((t, k, e))

    threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_llvm_is_loaded_by_the_first_build_and_not_before() -> None:
    code = (
        "import sys, tscript, tscript.driver, tscript.runtime, tscript.nd\n"
        "from tscript.ir.function import PrimFunc\n"
        "from tscript.ir.stmt import Evaluate\n"
        "from tscript.ir.construct import const\n"
        "assert 'llvmlite' not in sys.modules\n"
        "tscript.driver.build(PrimFunc([], Evaluate(const(0)), None, None, {'global_symbol': 'f'}))()\n"
        "assert 'llvmlite' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_building_a_small_function_is_quick() -> None:
    build(add_one)
    best = min(_seconds(lambda: build(add_one)) for _ in range(5))
    # The budget is 40 ms on a quiet machine.
    assert best < 0.12


def _seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def test_lower_gives_a_module_that_parses_back() -> None:
    lowered = lower(add_one)
    text = lowered.script()
    assert "T.block" not in text
    assert tscript.script.from_source(text).script() == text
