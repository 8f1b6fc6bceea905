"""Loops whose stores bypass the caches: where they are cut, what they compute, and what is left as it was."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tscript
from tscript import te
from tscript.codegen.llvm.processors import is_x86
from tscript.driver import build, lower
from tscript.schedule import Schedule
from tscript.script import from_source
from tscript.testing.workloads import transpose


def scaled(count: int, dtype: str = "float32", start: int = 0, annotate: bool = True, chunk: int = 0) -> Any:
    """B[start + i] = A[start + i] * 2, as one vectorised loop or as loops of `chunk` iterations in parallel."""
    a = te.placeholder((start + count,), dtype, "A")
    b = te.compute((start + count,), lambda i: a[i] * tscript.tir.const(2, dtype), name="B")
    s = Schedule(te.create_prim_func([a, b]))
    (i,) = s.get_loops("B")
    if start:
        i, _ = s.loop_partition(i, [start, None])[::-1]
    if chunk:
        outer, i = s.split(i, [None, chunk])
        s.parallel(outer)
    if annotate:
        s.annotate(i, "pragma_nontemporal", 1)
    s.vectorize(i)
    return s.mod


def placed(count: int, dtype: str, offset: int) -> Any:
    """An array that begins `offset` elements after the start of a line."""
    kind = np.dtype(dtype)
    raw = np.zeros(count * kind.itemsize + 256, np.uint8)
    first = -raw.ctypes.data % 64 + offset * kind.itemsize
    return raw[first : first + count * kind.itemsize].view(kind)


def check(mod: Any, count: int, dtype: str, offset: int) -> None:
    # Two elements more on each side show stores beyond the ends.
    source, room = placed(count, dtype, 3), placed(count + 4, dtype, offset)
    source[:] = np.arange(count) % 50
    room[:] = 7
    build(mod)["main"](source, room[2:-2])
    np.testing.assert_array_equal(room[2:-2], source * 2)
    assert (room[:2] == 7).all() and (room[-2:] == 7).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64"])
@pytest.mark.parametrize("count", [2048, 2049, 3000, 4095])
def test_any_place_of_the_output_gives_the_same_result(dtype: str, count: int) -> None:
    for offset in (0, 1, 4, 13):
        check(scaled(count, dtype), count, dtype, offset)


def test_chunks_on_threads_are_cut_each_on_its_own() -> None:
    for chunk in (1000, 1024, 777):
        check(scaled(10_000, chunk=chunk), 10_000, "float32", 4)


def test_the_stores_of_whole_lines_bypass_the_caches_and_are_ordered_before_the_end() -> None:
    mod = scaled(4096)
    assert 'T.attr(B.data, "pragma_nontemporal", 64)' in lower(mod)["main"].script()
    ir = build(mod).get_source("ll")
    assert re.search(r"store <64 x float>.*align 64,.*!nontemporal", ir)
    assert "sfence" in ir or not is_x86()


def test_without_the_annotation_stores_go_through_the_caches() -> None:
    ir = build(scaled(4096, annotate=False)).get_source("ll")
    assert "!nontemporal" not in ir and "sfence" not in ir


def test_a_lowered_stream_is_script_that_means_the_same() -> None:
    text = lower(scaled(4096)).script()
    tscript.ir.assert_structural_equal(from_source(text), lower(scaled(4096)))


@pytest.mark.parametrize("factor", [2, -1])
def test_stores_with_gaps_are_left_as_they_are(factor: int) -> None:
    a = te.placeholder((4096,), name="A")
    b = te.compute((4096,), lambda i: a[i] + 1.0, name="B")
    s = Schedule(te.create_prim_func([a, b]))
    s.transform_layout("B", ("write", 0), lambda i: (i % factor, i // factor) if factor > 0 else (4095 - i,))
    loop = s.get_loops("B")[-1]
    s.annotate(loop, "pragma_nontemporal", 1)
    s.vectorize(loop)
    assert "!nontemporal" not in build(s.mod).get_source("ll")
    source = np.arange(4096, dtype=np.float32)
    target = np.zeros((factor, 4096 // factor) if factor > 0 else 4096, np.float32)
    build(s.mod)["main"](source, target)
    expected = (source + 1).reshape(-1, factor).T if factor > 0 else (source + 1)[::-1]
    np.testing.assert_array_equal(target, expected)


def test_what_comes_next_is_asked_for_line_by_line() -> None:
    a, w = te.placeholder((8, 4096), name="A"), te.placeholder((4096,), name="W")
    b = te.compute((8, 4096), lambda i, j: a[i, j] * w[j], name="B")
    for nontemporal in (0, 1):
        s = Schedule(te.create_prim_func([a, w, b]))
        j = s.get_loops("B")[1]
        s.annotate(j, "pragma_prefetch_ahead", 4096)
        s.annotate(j, "pragma_nontemporal", nontemporal)
        s.vectorize(j)
        text = lower(s.mod)["main"].script()
        # Four lines for each 64 elements of A; W is the same for all rows.
        assert text.count('"llvm.prefetch"') == 4 and "address_of(W" not in text
        assert "@llvm.prefetch" in build(s.mod).get_source("ll")
        x, y = np.random.default_rng(0).random((8, 4096), np.float32), np.arange(4096, dtype=np.float32)
        out = np.empty((8, 4096), np.float32)
        build(s.mod)["main"](x, y, out)
        np.testing.assert_array_equal(out, x * y)


@pytest.mark.parametrize(("rows", "streams"), [(64, True), (72, False)])
def test_tiles_of_whole_lines_bypass_the_caches_where_the_array_begins_at_one(rows: int, streams: bool) -> None:
    s = Schedule(transpose(rows, 48).func)
    i, j = s.get_loops("B")
    i0, i1 = s.split(i, [None, 16])
    # Rows of 72 elements do not all begin at a line.
    j0, j1 = s.split(j, [None, 8 if rows == 72 else 16])
    s.reorder(i0, j0, i1, j1)
    s.annotate(i0, "pragma_nontemporal", 1)
    s.parallel(i0)
    s.unroll(i1)
    s.vectorize(j1)
    assert ('"pragma_nontemporal", 64' in lower(s.mod)["main"].script()) == streams
    assert ("!nontemporal" in build(s.mod).get_source("ll")) == streams
    for offset in (0, 4):
        a, b = placed(rows * 48, "float32", 0).reshape(rows, 48), placed(rows * 48, "float32", offset)
        a[:] = np.random.default_rng(0).random((rows, 48), np.float32)
        build(s.mod)["main"](a, b.reshape(48, rows))
        np.testing.assert_array_equal(b.reshape(48, rows), a.T)
