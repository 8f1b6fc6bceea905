"""Accesses out of bounds are found, with a witness that is right, and correct programs pass."""

from __future__ import annotations

import numpy as np
import pytest

from tscript import interp
from tscript.analysis import CheckError, OOBChecker, check
from tscript.ir.function import IRModule
from tscript.script import from_source
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import InterpError
from tscript.testing.workloads import small_workloads

HEAD = "@T.prim_func\ndef f(A: T.Buffer((16,), 'float32'), B: T.Buffer((16,), 'float32'), I: T.Buffer((16,), 'int32')"
SYMBOLIC = (
    "@T.prim_func\ndef f(a: T.handle, b: T.handle):\n    n = T.{dtype}()\n"
    "    A = T.match_buffer(a, (n,), 'float32')\n    B = T.match_buffer(b, (n,), 'float32')\n"
)


def kernel(body: str, more: str = ""):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return from_source(f"{HEAD}{more}):\n{lines}")


def symbolic(body: str, dtype: str = "int32"):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return from_source(SYMBOLIC.format(dtype=dtype) + lines)


RIGHT = {
    "plain": "for i in range(16):\n    B[i] = A[i]",
    "offset": "for i in range(-3, 13):\n    B[i + 3] = A[i + 3]",
    "guard": "for i in range(20):\n    if i < 16:\n        B[i] = A[i]",
    "else branch": "for i in range(20):\n    if i >= 16:\n        B[0] = A[0]\n    else:\n        B[i] = A[i]",
    "expression guard": "for i in range(16):\n    B[i] = T.if_then_else(i < 15, A[i + 1], T.float32(0))",
    "let": "for i in range(8):\n    j = i * 2\n    B[j] = A[j + 1]",
    "modulo": "for i in range(100):\n    B[i % 16] = A[i // 8 % 16]",
    "int64": "for i in range(T.int64(16)):\n    B[i] = A[i]",
    "vector": "for i in range(4):\n    B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]",
    "block predicate": "for i, j in T.grid(3, 6):\n    with T.block('B'):\n        T.where(i * 6 + j < 16)\n"
    "        v = T.axis.spatial(16, i * 6 + j)\n        B[v] = A[v]",
    "square": "for i in range(4):\n    B[i * i] = A[i * i]",
    "empty loop": "for i in range(0):\n    B[i + 100] = A[i + 100]",
    "view": "for i in range(4):\n    with T.block('B'):\n        v = T.axis.spatial(4, i)\n"
    "        T.reads(A[v * 4:v * 4 + 4])\n        T.writes(B[v * 4:v * 4 + 4])\n"
    "        V = T.match_buffer(A[v * 4:v * 4 + 4], (4,), 'float32')\n"
    "        for k in range(4):\n            B[v * 4 + k] = V[k]",
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=list(RIGHT))
def test_a_right_access_gives_no_finding(body):
    assert list(check(kernel(body))) == []


WRONG = {
    "shifted": ("for i, j in T.grid(16, 2):\n    B[i] = A[i + j]", {"i": 15, "j": 1}),
    "negative": ("for i in range(16):\n    B[i] = A[i - 1]", {"i": 0}),
    "wrong guard": ("for i in range(20):\n    if i <= 16:\n        B[i] = A[0]", {"i": 16}),
    "select guards nothing": ("for i in range(16):\n    B[i] = T.Select(i < 15, A[i + 1], T.float32(0))", {"i": 15}),
    "and guards nothing": ("for i in range(16):\n    if i < 15 and A[i + 1] > T.float32(0):\n"
        "        B[i] = A[i]", {"i": 15}),
    "let": ("for i in range(9):\n    j = i * 2\n    B[j] = A[0]", {"i": 8}),
    "vector": ("for i in range(4):\n    B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4 + 1, 1, 4)]", {"i": 3}),
    "stride": ("for i in range(4):\n    B[T.Ramp(i, 5, 4)] = A[T.Ramp(0, 1, 4)]", {"i": 1}),
    "block": ("for i, j in T.grid(3, 6):\n    with T.block('B'):\n        v = T.axis.spatial(18, i * 6 + j)\n"
        "        B[v] = A[0]",
              {"i": 2, "j": 4}),
    "axis": ("for i in range(16):\n    with T.block('B'):\n        v = T.axis.spatial(15, i)\n"
        "        B[v] = A[v]", {"i": 15}),
    "far": ("for i in range(1000000):\n    if i * 3 == 2999997:\n        B[i - 999983] = A[0]", {"i": 999999}),
    "view": ("for i in range(4):\n    with T.block('B'):\n        v = T.axis.spatial(4, i)\n"
             "        T.reads(A[0:16])\n        T.writes(B[0:16])\n"
             "        V = T.match_buffer(A[v * 5:v * 5 + 4], (4,), 'float32')\n        B[v] = V[0]", {"i": 3}),
}  # fmt: skip


@pytest.mark.parametrize(("body", "witness"), WRONG.values(), ids=list(WRONG))
def test_a_wrong_access_is_proven_by_a_witness_and_the_interpreter_stops_at_it(body, witness):
    func = kernel(body)
    found = check(func, kinds=("out-of-bounds",)).proven
    assert found, body
    assert found[0].kind == "out-of-bounds"
    assert found[0].witness == witness
    arrays = [np.ones(16, "float32"), np.zeros(16, "float32"), np.zeros(16, "int32")]
    with pytest.raises(InterpError):
        interp.run(func, *arrays, check_regions=False)


def test_what_depends_on_data_is_possible_and_never_proven():
    for body in (
        "for i in range(16):\n    B[i] = A[I[i]]",
        "for i in range(17):\n    if I[0] > 0:\n        B[i] = A[0]",
    ):
        report = check(kernel(body))
        assert [f.status for f in report] == ["possible"]
    assert report[0].witness == {"i": 16}
    assert "if this iteration runs" in report[0].message


def test_a_while_loop_proves_nothing_but_still_guards():
    guarded = (
        "i = T.alloc_buffer((1,), 'int32', scope='local')\ni[0] = 0\n"
        "while i[0] < 16:\n    B[i[0]] = A[0]\n    i[0] = i[0] + 1"
    )
    assert [f.status for f in check(kernel(guarded), kinds=("out-of-bounds",))] == ["possible"]


def test_a_scalar_that_callers_choose_proves_nothing():
    report = check(kernel("for i in range(m):\n    B[i] = A[i]", ", m: T.int32"))
    assert {f.status for f in report} == {"possible"}
    assert not check(kernel("if 0 <= m and m < 16:\n    B[m] = A[m]", ", m: T.int32"))
    assert not check(kernel("assert 0 <= m and m < 16, 'range'\nB[m] = A[m]", ", m: T.int32"))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_symbolic_sizes_are_reasoned_about_and_witnessed(dtype):
    tiled = "for i, j in T.grid((n + 15) // 16, 16):\n    if i * 16 + j < n:\n        B[i * 16 + j] = A[i * 16 + j]"
    assert not check(symbolic(tiled, dtype))
    unguarded = "for i, j in T.grid((n + 15) // 16, 16):\n    B[i * 16 + j] = A[0]"
    report = check(symbolic(unguarded, dtype))
    assert [f.status for f in report] == ["proven"]
    n = report[0].witness["n"]
    with pytest.raises(InterpError):
        interp.run(symbolic(unguarded, dtype), np.ones(n, "float32"), np.ones(n, "float32"))
    assert not check(symbolic("for i in range(n - 1):\n    B[i] = A[i + 1]", dtype))


def test_every_function_of_a_module_is_checked_and_named():
    @I.ir_module
    class Module:
        @T.prim_func
        def right(A: T.Buffer((4,), "int32")):
            for i in range(4):
                A[i] = i

        @T.prim_func
        def wrong(A: T.Buffer((4,), "int32")):
            for i in range(5):
                A[i] = i

    assert isinstance(Module, IRModule)
    (finding,) = check(Module)
    assert finding.function == "wrong"
    assert finding.buffer == "A"
    assert finding.span is not None
    assert "A[i] = i\n" in finding.span.render()
    assert "^^^^^^^^" in str(finding)
    with pytest.raises(CheckError, match=r"A\[4\] is outside A, whose dimension 0 has extent 4"):
        OOBChecker()(Module)


def test_a_pointer_out_of_sight_is_noted_as_unknown():
    @T.prim_func
    def calls(A: T.Buffer((4,), "float32")):
        T.evaluate(T.call_extern("int32", "fill", A.data))

    report = check(calls)
    assert list(report) == []
    assert report.notes == ("A in calls: its pointer is used directly, so what happens there is unknown",)
    assert "note: A in calls" in str(report)


def test_only_strict_gates_stop_at_possible_findings():
    func = kernel("for i in range(16):\n    B[i] = A[I[i]]")
    assert OOBChecker()(func) is func
    with pytest.raises(CheckError):
        OOBChecker(strict=True)(func)


def test_arguments_of_the_wrong_kind_are_refused():
    with pytest.raises(TypeError, match="a PrimFunc or an IRModule can be checked, not an int"):
        check(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="there is no check 'bounds'"):
        check(kernel("B[0] = A[0]"), kinds=("bounds",))


@pytest.mark.parametrize("workload", small_workloads(), ids=lambda w: w.name)
def test_workloads_give_no_finding(workload):
    assert list(check(workload.func)) == []
