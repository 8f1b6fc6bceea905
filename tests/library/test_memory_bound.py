"""Schedules of what memory limits: rows, chains, reductions, transposes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tscript
from tscript import library, te
from tscript.analysis import check
from tscript.library.reductions import PIECE
from tscript.script import from_source
from tscript.testing import workloads
from tscript.testing.workloads import Workload

TARGETS = ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"]


def total(*shape: int, dtype: str = "float32") -> Workload:
    """The sum of all elements."""
    a = te.placeholder(shape, dtype, "A")
    axes = [te.reduce_axis((0, s), f"k{n}") for n, s in enumerate(shape)]
    b = te.compute((), lambda: te.sum(a[tuple(axes)], axis=axes), name="B")
    kind = np.float64 if dtype == "float32" else np.dtype(dtype)
    return Workload("total", te.create_prim_func([a, b]), lambda x: np.asarray(x.astype(kind).sum(dtype=kind)))


def largest(*shape: int) -> Workload:
    """The largest element along the last dimension."""
    a, k = te.placeholder(shape, name="A"), te.reduce_axis((0, shape[-1]), "k")
    b = te.compute(shape[:-1], lambda *i: te.max(a[(*i, k)], axis=k), name="B")
    return Workload("largest", te.create_prim_func([a, b]), lambda x: x.max(-1))


def gated(*shape: int) -> Workload:
    """tanh(A + bias) * (A + bias), in three nests."""
    a, bias = te.placeholder(shape, name="A"), te.placeholder(shape[-1:], name="bias")
    c = te.compute(shape, lambda *i: a[i] + bias[i[-1]], name="C")
    d = te.compute(shape, lambda *i: te.tanh(c[i]), name="D")
    e = te.compute(shape, lambda *i: d[i] * c[i], name="E")
    return Workload("gated", te.create_prim_func([a, bias, e]), lambda x, y: np.tanh(x + y) * (x + y))


def log_softmax(*shape: int) -> Workload:
    """The logarithm of softmax, over any number of row axes."""
    a = te.placeholder(shape, name="A")
    k1, k2 = te.reduce_axis((0, shape[-1]), "k1"), te.reduce_axis((0, shape[-1]), "k2")
    top = te.compute(shape[:-1], lambda *i: te.max(a[(*i, k1)], axis=k1), name="top")
    s = te.compute(shape[:-1], lambda *i: te.sum(te.exp(a[(*i, k2)] - top[i]), axis=k2), name="s")
    out = te.compute(shape, lambda *i: a[i] - top[i[:-1]] - te.log(s[i[:-1]]), name="out")

    def reference(x: Any) -> Any:
        y = x - x.max(-1, keepdims=True)
        return y - np.log(np.exp(y).sum(-1, keepdims=True))

    return Workload("log_softmax", te.create_prim_func([a, out]), reference)


def permuted(shape: tuple[int, ...], order: tuple[int, ...], dtype: str = "float32") -> Workload:
    """A with its dimensions in another order."""
    a = te.placeholder(shape, dtype, "A")
    place = [order.index(d) for d in range(len(order))]
    b = te.compute([shape[d] for d in order], lambda *i: a[tuple(i[p] for p in place)], name="B")
    return Workload("permuted", te.create_prim_func([a, b]), lambda x: x.transpose(order))


CASES = [
    ("transpose", workloads.transpose(512, 256)),
    ("transpose", workloads.transpose(1000, 1003)),
    ("transpose", workloads.transpose(2048, 2304)),
    ("transpose", workloads.transpose(1, 9)),
    ("transpose", workloads.transpose(3, 5)),
    ("transpose", permuted((5, 40, 33), (0, 2, 1))),
    ("transpose", permuted((5, 48, 32), (2, 1, 0))),
    ("transpose", permuted((2, 3, 40, 33), (0, 2, 3, 1))),
    ("transpose", permuted((64, 96), (1, 0), "float64")),
    ("transpose", permuted((64, 96), (1, 0), "int8")),
    ("transpose", permuted((64, 96), (1, 0), "float16")),
    ("softmax", workloads.softmax(64, 4096)),
    ("softmax", workloads.softmax(7, 1000)),
    ("softmax", workloads.softmax(1, 8)),
    ("softmax", workloads.softmax(300, 77)),
    ("softmax", log_softmax(3, 5, 100)),
    ("layer_norm", workloads.layer_norm(33, 512)),
    ("layer_norm", workloads.layer_norm(5, 77)),
    ("rms_norm", workloads.rms_norm(40, 512)),
    ("rms_norm", workloads.rms_norm(3, 9)),
    ("rms_norm", workloads.rms_norm(6, 130, "bfloat16")),
    ("elementwise", workloads.add(1)),
    ("elementwise", workloads.add(100_003)),
    ("elementwise", workloads.add(5_000_000)),
    ("elementwise", gated(3, 5, 100)),
    ("elementwise", gated(4200, 1027)),
    ("elementwise", gated(17)),
    ("reduction", workloads.matvec(1, 100)),
    ("reduction", workloads.matvec(300, 1001)),
    ("reduction", workloads.matvec(2, 2 * PIECE + 13)),
    ("reduction", total(8)),
    ("reduction", total(1_000_003)),
    ("reduction", total(3 * PIECE + 1)),
    ("reduction", total(300, 1000)),
    ("reduction", total(2, 9)),
    ("reduction", total(3, 100_000, dtype="int32")),
    ("reduction", largest(4, 5, 60)),
    ("reduction", largest(2, 3, 300_000)),
]


@pytest.mark.parametrize(("name", "work"), CASES, ids=lambda x: getattr(x, "name", x))
def test_results_are_right_in_bounds_and_the_trace_replays(name: str, work: Workload) -> None:
    assert library.recognise(work.func) == name
    sch = library.schedule(work.func)
    arrays = work.arguments()
    tscript.build(sch.mod, target="llvm")["main"](*arrays)
    work.check(arrays)
    assert list(check(sch.mod["main"])) == []
    again = tscript.tir.Schedule(work.func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    tscript.ir.assert_structural_equal(again.mod, sch.mod)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "work",
    [
        workloads.softmax(20, 333),
        workloads.layer_norm(20, 256),
        workloads.rms_norm(9, 1000),
        workloads.matvec(20, 999),
        total(200_000),
        gated(30, 700),
    ],
    ids=lambda w: w.name,
)
def test_every_processor_gets_vectors_of_its_own(target: str, work: Workload) -> None:
    sch = library.schedule(work.func, target)
    arrays = work.arguments()
    tscript.build(sch.mod, target=target)["main"](*arrays)
    work.check(arrays)


@pytest.mark.parametrize("work", [workloads.softmax(3, 40), workloads.layer_norm(2, 37), workloads.matvec(5, 33)])
def test_the_interpreter_agrees(work: Workload) -> None:
    sch = library.schedule(work.func)
    arrays = work.arguments()
    tscript.interp.run(sch.mod["main"], *arrays)
    work.check(arrays)


def test_structure_decides_and_not_names() -> None:
    source = """
@T.prim_func
def main(p: T.Buffer((12, 64), "float32"), q: T.Buffer((12, 64), "float32")):
    m = T.alloc_buffer((12,))
    e = T.alloc_buffer((12, 64))
    s = T.alloc_buffer((12,))
    for a, b in T.grid(12, 64):
        with T.block("one"):
            i, k = T.axis.remap("SR", [a, b])
            with T.init():
                m[i] = T.min_value("float32")
            m[i] = T.max(m[i], p[i, k])
    for a, b in T.grid(12, 64):
        with T.block("two"):
            i, j = T.axis.remap("SS", [a, b])
            e[i, j] = T.exp(p[i, j] - m[i])
    for a, b in T.grid(12, 64):
        with T.block("three"):
            i, k = T.axis.remap("SR", [a, b])
            with T.init():
                s[i] = T.float32(0)
            s[i] = s[i] + e[i, k]
    for a, b in T.grid(12, 64):
        with T.block("four"):
            i, j = T.axis.remap("SS", [a, b])
            q[i, j] = e[i, j] / s[SUBSCRIPT]
"""
    plain = from_source(source.replace("SUBSCRIPT", "i"))
    assert library.recognise(plain) == "softmax"
    # A row that needs the sum of another one cannot be finished by itself.
    assert library.recognise(from_source(source.replace("SUBSCRIPT", "11 - i"))) is None


def test_products_of_matrices_are_no_reductions_along_rows() -> None:
    a, b, k = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B"), te.reduce_axis((0, 64), "k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    assert library.recognise(te.create_prim_func([a, b, c])) != "reduction"


def test_only_outputs_larger_than_caches_go_past_them() -> None:
    for rows, streamed in ((64, False), (8192, True)):
        sch = library.schedule(workloads.softmax(rows, 1024).func)
        text = tscript.build(sch.mod, target="llvm").get_source("ll")
        assert ("!nontemporal" in text) == streamed
