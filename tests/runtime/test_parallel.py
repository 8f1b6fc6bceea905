"""Parallel loops run on several threads: same results whatever their number, errors of the first iteration, no harm."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tscript
from tscript.runtime import load_module, num_threads, set_num_threads
from tscript.support.errors import AssertFailed, DivisionByZero, ExecutionError

THREADS = (1, 2, 5)


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = num_threads()
    yield
    set_num_threads(before)


def kernel(source: str, target: str = "llvm"):
    head = '@T.prim_func\ndef k({}):\n    T.func_attr({{"global_symbol": "k"}})\n'
    params, _, body = source.strip().partition("\n")
    return tscript.build(tscript.script.from_source(head.format(params) + body), target)["k"]


SQUARES = """
A: T.Buffer((1000,), "int64")
    for i in T.parallel(1000):
        A[i] = T.Cast("int64", i) * T.Cast("int64", i)
"""


@pytest.mark.parametrize("threads", (*THREADS, 64))
def test_each_iteration_runs_once(threads):
    f = kernel('A: T.Buffer((1000,), "int64")\n    for i in T.parallel(1000):\n        A[i] = A[i] + T.int64(1)\n')
    set_num_threads(threads)
    a = np.zeros(1000, "int64")
    for _ in range(50):
        f(a)
    assert (a == 50).all()


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_loops_of_any_length_from_any_start(threads, dtype):
    f = kernel(
        f'A: T.Buffer((64,), "int32"), low: T.{dtype}, n: T.{dtype}\n'
        "    for i in T.parallel(low, low + n):\n        A[i + 16] = A[i + 16] + T.Cast('int32', i) + 100\n"
    )
    set_num_threads(threads)
    for low, n in ((0, 0), (0, -5), (-16, 1), (-16, 64), (3, 7), (5, 0), (-3, 17)):
        a = np.zeros(64, "int32")
        f(a, low, n)
        expected = np.zeros(64, "int32")
        for i in range(low, low + n):
            expected[i + 16] += i + 100
        assert (a == expected).all(), (low, n)


@pytest.mark.parametrize("threads", THREADS)
def test_variables_beyond_an_int32_keep_their_values(threads):
    f = kernel(
        'A: T.Buffer((100,), "int64"), low: T.int64\n    for i in T.parallel(low, low + T.int64(100)):\n'
        "        A[i - low] = i\n"
    )
    set_num_threads(threads)
    for low in (1 << 40, -(1 << 40), (1 << 62) - 200):
        a = np.zeros(100, "int64")
        f(a, low)
        assert (a == np.arange(low, low + 100)).all()


def test_values_from_around_the_loop_reach_its_body():
    f = kernel(
        'A: T.Buffer((4, 8), "float32"), B: T.Buffer((8,), "float16"), s: T.float32, t: T.int8, u: T.bool\n'
        "    for o in range(4):\n"
        "        h: T.float32 = s * T.Cast('float32', o)\n"
        "        b: T.float16 = B[o]\n"
        "        for i in T.parallel(8):\n"
        "            A[o, i] = h + T.Cast('float32', t) + T.Select(u, T.Cast('float32', b), T.float32(0)) "
        "+ T.Cast('float32', i)\n"
    )
    b = np.arange(8).astype("float16")
    for u in (True, False):
        for threads in THREADS:
            set_num_threads(threads)
            a = np.zeros((4, 8), "float32")
            f(a, b, 1.5, -3, u)
            o, i = np.mgrid[:4, :8]
            assert (a == 1.5 * o - 3 + (b[:4, None] if u else 0) + i).all()


@pytest.mark.parametrize("threads", THREADS)
def test_the_failure_is_that_of_the_first_iteration_that_fails(threads):
    f = kernel(
        'A: T.Buffer((400,), "int32"), first: T.int32\n'
        "    for i in T.parallel(400):\n"
        "        if i >= first + 1:\n"
        "            assert A[i] < 0, 'a later one'\n"
        "            A[i] = 1\n"
        "        if i >= first:\n"
        "            A[i] = 7 // A[0]\n"
    )
    set_num_threads(threads)
    for first in (0, 1, 50, 203, 398):
        with pytest.raises(DivisionByZero):
            f(np.zeros(400, "int32"), first)
    with pytest.raises(AssertFailed, match="a later one"):
        f(np.ones(400, "int32"), 0)
    f(np.ones(400, "int32"), 400)


def test_after_a_failure_the_next_loop_runs():
    f = kernel('A: T.Buffer((40,), "int32")\n    for i in T.parallel(40):\n        A[i] = 10 // A[i]\n')
    set_num_threads(2)
    for _ in range(20):
        a = np.ones(40, "int32")
        a[17] = 0
        with pytest.raises(DivisionByZero):
            f(a)
        a = np.full(40, 3, "int32")
        f(a)
        assert (a == 3).all()


def test_memory_of_an_iteration_is_its_own():
    f = kernel(
        'A: T.Buffer((64, 3000), "int32"), B: T.Buffer((64,), "int32")\n'
        "    for i in T.parallel(64):\n"
        '        big = T.decl_buffer((3000,), "int32")\n'
        '        small = T.decl_buffer((4,), "int32")\n'
        "        small[0] = 0\n"
        "        for j in range(3000):\n"
        "            big[j] = A[i, j] * 2\n"
        "        for j in range(3000):\n"
        "            small[0] = small[0] + big[j]\n"
        "        B[i] = small[0]\n"
    )
    a = np.random.default_rng(0).integers(-9, 9, (64, 3000)).astype("int32")
    for threads in THREADS:
        set_num_threads(threads)
        b = np.zeros(64, "int32")
        f(a, b)
        assert (b == 2 * a.sum(1)).all()


def test_loops_inside_parallel_loops_and_functions_called_there_run_in_their_thread():
    source = """
@I.ir_module
class M:
    @T.prim_func(private=True)
    def row(a: T.handle("int32"), o: T.int32):
        A = T.decl_buffer((512,), "int32", data=a)
        for i in T.parallel(16):
            for j in T.parallel(2):
                A[o * 32 + i * 2 + j] = A[o * 32 + i * 2 + j] + o * 100 + i * 2 + j

    @T.prim_func
    def main(A: T.Buffer((512,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for o in T.parallel(16):
            M.row(A.data, o)
"""
    f = tscript.build(tscript.script.from_source(source))["main"]
    o, i = np.mgrid[:16, :32]
    for threads in THREADS:
        set_num_threads(threads)
        a = np.zeros(512, "int32")
        f(a)
        assert (a.reshape(16, 32) == o * 100 + i).all()


RECURSIVE = """
@I.ir_module
class M:
    @T.prim_func(private=True)
    def tree(a: T.handle("int32"), o: T.int32, d: T.int32):
        A = T.decl_buffer((64,), "int32", data=a)
        if d == 0:
            A[o] = A[o] + 1
        else:
            for i in T.parallel(2):
                M.tree(a, o * 2 + i, d - 1)

    @T.prim_func(private=True)
    def endless(a: T.handle("int32"), d: T.int32):
        A = T.decl_buffer((64,), "int32", data=a)
        for i in T.parallel(2):
            if i == 0:
                A[0] = A[0] + 1
                M.endless(a, d + 1)

    @T.prim_func
    def leaves(A: T.Buffer((64,), "int32")):
        T.func_attr({"global_symbol": "leaves"})
        M.tree(A.data, 0, 6)

    @T.prim_func
    def too_deep(A: T.Buffer((64,), "int32")):
        T.func_attr({"global_symbol": "too_deep"})
        M.endless(A.data, 0)
"""


@pytest.mark.parametrize("threads", THREADS)
def test_functions_that_call_themselves_from_parallel_loops(threads):
    lib = tscript.build(tscript.script.from_source(RECURSIVE))
    set_num_threads(threads)
    a = np.zeros(64, "int32")
    lib["leaves"](a)
    assert (a == 1).all()
    with pytest.raises(ExecutionError, match="too deeply"):
        lib["too_deep"](a)


@pytest.mark.parametrize("threads", THREADS)
def test_pointers_into_an_array_and_memory_from_around_the_loop_reach_its_body(threads):
    f = kernel(
        'A: T.Buffer((64, 16), "float32"), B: T.Buffer((16,), "float32"), n: T.int32\n'
        '    T.func_attr({"tir.noalias": True})\n'
        "    v: T.float32x16 = B[0:16]\n"
        '    table = T.allocate_const([1, 2, 3, 4], "int32", (4,))\n'
        '    Table = T.Buffer((4,), "int32", data=table)\n'
        '    m = T.allocate((n,), "float32", "global")\n'
        '    M = T.Buffer((n,), "float32", data=m)\n'
        "    for j in range(n):\n"
        '        M[j] = T.Cast("float32", j)\n'
        '    p: T.handle("float32") = T.address_of(A[1, 0])\n'
        '    P = T.decl_buffer((63, 16), "float32", data=p)\n'
        "    for r in range(3):\n"
        "        for i in T.parallel(n):\n"
        "            P[i, 0:16] = v * T.Broadcast(M[i] + T.Cast('float32', Table[i % 4] + r), 16) + A[i + 1, 0:16]\n"
        "            A[i + 1, 0] = P[i, 0] + T.float32(1)\n"
    )
    set_num_threads(threads)
    a, b = np.zeros((64, 16), "float32"), np.arange(16).astype("float32")
    f(a, b, 60)
    i = np.arange(60)
    expected = np.zeros_like(a)
    expected[1:61] = b * (3 * (i + np.array([1, 2, 3, 4])[i % 4]) + 3)[:, None]
    expected[1:61, 0] += 3
    np.testing.assert_array_equal(a, expected)


def test_a_loop_that_leaves_the_kernel_runs_in_order():
    f = kernel(
        'A: T.Buffer((100,), "int32")\n    for i in T.parallel(100):\n        if A[i] > 0:\n'
        "            T.evaluate(T.ret(i))\n        A[i] = -1\n    T.evaluate(T.ret(-1))\n"
    )
    set_num_threads(4)
    a = np.zeros(100, "int32")
    a[[30, 60]] = 1
    assert f(a) == 30
    assert (a[:30] == -1).all() and (a[31:60] == 0).all()


def test_a_target_limits_the_threads_of_its_kernels():
    # Iterations that sleep leave the processor to other threads, however busy the machine is.
    body = (
        'A: T.Buffer((64,), "uint64")\n    for i in T.parallel(64):\n'
        '        T.evaluate(T.call_extern("int32", "usleep", T.uint32(2000)))\n'
        '        A[i] = T.call_extern("uint64", "pthread_self")\n'
    )
    set_num_threads(4)
    a = np.zeros(64, "uint64")
    one = kernel(body, "llvm -num-cores=1")
    for _ in range(3):
        one(a)
        assert len(set(a.tolist())) == 1
    seen: set[int] = set()
    f = kernel(body)
    last = time.monotonic() + 40
    while len(seen) < 2 and time.monotonic() < last:
        f(a)
        seen.update(a.tolist())
    for _ in range(5):
        f(a)
        seen.update(a.tolist())
    assert 2 <= len(seen) <= 4


def test_several_threads_of_the_program_may_call_at_once():
    f = kernel(
        'A: T.Buffer((256,), "int64"), x: T.int64\n    for i in T.parallel(256):\n'
        "        A[i] = A[i] + x * T.Cast('int64', i)\n"
    )
    bad = kernel('A: T.Buffer((40,), "int32")\n    for i in T.parallel(40):\n        A[i] = 10 // A[i]\n')
    set_num_threads(3)
    wrong: list[object] = []

    def work(x: int) -> None:
        a = np.zeros(256, "int64")
        for _ in range(2000):
            f(a, x)
        if not (a == 2000 * x * np.arange(256)).all():
            wrong.append(x)
        for _ in range(50):
            try:
                bad(np.zeros(40, "int32"))
            except DivisionByZero:
                continue
            wrong.append("no failure")

    threads = [threading.Thread(target=work, args=(x,)) for x in range(1, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_exported_code_finds_the_threads(tmp_path):
    lib = tscript.build(
        tscript.script.from_source(
            '@T.prim_func\ndef k(A: T.Buffer((100,), "int32")):\n    T.func_attr({"global_symbol": "k"})\n'
            "    for i in T.parallel(100):\n        A[i] = i\n"
        )
    )
    lib.export_library(tmp_path / "k.tslib")
    program = (
        "import sys, numpy as np; from tscript.runtime import load_module, set_num_threads; set_num_threads(3)\n"
        "a = np.zeros(100, 'int32'); load_module(sys.argv[1])['k'](a); assert (a == range(100)).all(); print('fine')"
    )
    found = _python(program, str(tmp_path / "k.tslib"))
    assert found.stdout == "fine\n", found.stderr
    a = np.zeros(100, "int32")
    load_module(tmp_path / "k.tslib")["k"](a)
    assert (a == range(100)).all()


def _python(program: str, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **variables},
    )  # fmt: skip


_SQUARES = """
import os, signal, sys, time, numpy as np, tscript
f = tscript.build(tscript.script.from_source('''
@T.prim_func
def k(A: T.Buffer((1000,), "int64")):
    T.func_attr({"global_symbol": "k"})
    for i in T.parallel(1000):
        A[i] = T.Cast("int64", i) * T.Cast("int64", i)
'''))["k"]
def check(times=100):
    for _ in range(times):
        a = np.zeros(1000, "int64"); f(a); assert (a == np.arange(1000) ** 2).all()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own():
    found = _python(
        _SQUARES + "import threading\n"
        "def tasks(): return len(os.listdir('/proc/self/task')) if os.path.isdir('/proc/self/task') else 0\n"
        "check(); before = tasks()\n"
        "busy = threading.Thread(target=check, args=(20000,)); busy.start()\n"
        "for n in range(20):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        alone = tasks(); check(); check(); more = tasks()\n"
        "        os._exit(0 if alone <= 1 and (more == 3 or not more) else 1)\n"
        "    check(20); assert os.waitpid(child, 0)[1] == 0, n\n"
        "busy.join(); check(); print('fine')\n",
        TSCRIPT_NUM_THREADS="3", PYTHONWARNINGS="ignore",
    )  # fmt: skip
    assert found.stdout == "fine\n", found.stderr


@pytest.mark.parametrize("pause", ["", "time.sleep(0.02)"])
def test_a_process_ends_while_its_threads_spin_or_sleep(pause):
    for _ in range(4):
        found = _python(_SQUARES + f"check(3); {pause}\nprint('fine')", TSCRIPT_NUM_THREADS="4")
        assert (found.returncode, found.stdout, found.stderr) == (0, "fine\n", "")


def test_a_program_can_still_be_interrupted():
    found = _python(
        _SQUARES + "check(3)\nimport threading\n"
        # Python may drop an interruption that comes while it cleans an object up; people press the keys again.
        "done = threading.Event()\n"
        "def press():\n    while not done.wait(1): os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=press, daemon=True).start()\n"
        "try:\n    while True: check(1)\n"
        "except KeyboardInterrupt: done.set(); print('stopped')\ncheck()\n",
        TSCRIPT_NUM_THREADS="3",
    )  # fmt: skip
    assert found.stdout == "stopped\n", found.stderr


def test_threads_without_work_use_no_time():
    f = kernel(SQUARES)
    set_num_threads(4)
    for _ in range(100):
        f(np.zeros(1000, "int64"))
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.05


def test_the_number_of_threads_comes_from_the_environment():
    ask = "from tscript.runtime import num_threads; print(num_threads())"
    assert _python(ask, TSCRIPT_NUM_THREADS="7").stdout == "7\n"
    assert _python(ask, TVM_NUM_THREADS="3").stdout == "3\n"
    assert "TSCRIPT_NUM_THREADS='x'" in _python(ask, TSCRIPT_NUM_THREADS="x").stderr


@pytest.mark.parametrize(("number", "error"), [(0, ValueError), (-1, ValueError), (1025, ValueError), (1.5, TypeError)])
def test_a_number_that_makes_no_sense_is_refused(number, error):
    with pytest.raises(error, match="thread"):
        set_num_threads(number)


def test_loops_become_vector_code_as_serial_ones_do():
    text = (
        '@T.prim_func\ndef k(A: T.Buffer((64, 256), "float32"), B: T.Buffer((64, 256), "float32")):\n'
        '    T.func_attr({{"global_symbol": "k", "tir.noalias": True}})\n'
        "    for i in T.{}(64):\n        for j in range(256):\n            A[i, j] = A[i, j] + B[i, 0]\n"
    )
    serial, parallel = (
        tscript.build(tscript.script.from_source(text.format(kind))).get_source() for kind in ("serial", "parallel")
    )
    # The pointers are known to be apart there too, so nothing is compared at run time.
    assert "noalias" in next(line for line in parallel.splitlines() if "@k.part" in line and "define" in line)
    for source in (serial, parallel):
        assert " x float>" in source
        assert "memcheck" not in source
