"""Matrix products, batches and convolutions: results, bounds, replays, and what is recognised."""

from __future__ import annotations

import numpy as np
import pytest

import tscript
from tscript import library, te
from tscript.analysis import check
from tscript.library.contraction import find_contraction
from tscript.library.matmul import find_product
from tscript.script import tir as T
from tscript.testing import workloads

ForKind = tscript.tir.ForKind
AVX512 = "llvm -mcpu=skylake-avx512 -num-cores=2"
SMALL = [
    (1, 1, 1), (1, 64, 16), (3, 100, 40), (5, 1, 7), (16, 16, 16), (13, 65, 33), (37, 19, 1), (70, 130, 50), (20, 8, 9),
]  # fmt: skip
LARGE = [(128, 128, 128), (397, 509, 253), (1, 4096, 4096), (4096, 8, 4096), (300, 2000, 8), (512, 70, 300)]


def product(m, n, k, dtype="float32", left="mk", right="kn"):
    """C[m, n] from operands in any of two layouts."""
    a = te.placeholder((m, k) if left == "mk" else (k, m), dtype, name="A")
    b = te.placeholder((k, n) if right == "kn" else (n, k), dtype, name="B")
    r = te.reduce_axis((0, k), "k")

    def element(i, j):
        x = a[i, r] if left == "mk" else a[r, i]
        y = b[r, j] if right == "kn" else b[j, r]
        return te.sum(x * y, axis=r)

    return te.create_prim_func([a, b, te.compute((m, n), element, name="C")])


def require_replay(func, sch):
    again = tscript.tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    tscript.ir.assert_structural_equal(again.mod, sch.mod)


def run(mod, *arrays, target="llvm"):
    tscript.build(mod, target)["main"](*arrays)


@pytest.mark.parametrize("shape", SMALL)
def test_small_products_are_the_same_in_bounds_and_replayed(shape):
    func = product(*shape)
    sch = library.schedule(func, AVX512)
    assert tscript.compare(func, sch.mod["main"]).equal
    assert list(check(sch.mod["main"])) == []
    require_replay(func, sch)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("shape", [(13, 65, 33), (3, 100, 40), *LARGE])
def test_products_run_at_every_vector_width(shape, target):
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    c = np.full((m, n), np.nan, np.float32)
    run(library.schedule(product(m, n, k), target).mod, a, b, c, target=target)
    np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-6 * k)


@pytest.mark.parametrize("left", ["mk", "km"])
@pytest.mark.parametrize("right", ["kn", "nk"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_operands_may_be_transposed(left, right, dtype):
    func = product(45, 70, 33, dtype, left, right)
    sch = library.schedule(func, AVX512)
    assert any(sch.get(x).kind == ForKind.VECTORIZED for x in sch.get_loops("C_update"))
    assert tscript.compare(func, sch.mod["main"]).equal
    rng = np.random.default_rng(0)
    a, b = ((rng.random(s) * 9).astype(dtype) for s in ((45, 33), (33, 70)))
    c = np.empty((45, 70), dtype)
    run(
        library.schedule(func).mod,
        a if left == "mk" else np.ascontiguousarray(a.T),
        b if right == "kn" else np.ascontiguousarray(b.T),
        c,
    )
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize("shape", [(12, 128, 128, 64), (3, 17, 40, 9), (1, 5, 5, 5), (7, 200, 300, 40)])
def test_batches(shape):
    w = workloads.batch_matmul(*shape)
    assert library.recognise(w.func) == "product"
    sch = library.schedule(w.func)
    arrays = w.arguments()
    run(sch.mod, *arrays)
    w.check(arrays)
    require_replay(w.func, sch)
    if shape[1] < 20:
        assert list(check(sch.mod["main"])) == []


@pytest.mark.parametrize("shape", [(56, 64, 64), (7, 3, 5), (9, 16, 100), (1, 1, 1)])
def test_convolutions(shape):
    w = workloads.conv2d(*shape)
    assert library.recognise(w.func) == "product"
    sch = library.schedule(w.func)
    arrays = w.arguments()
    run(sch.mod, *arrays)
    w.check(arrays)
    require_replay(w.func, sch)
    if shape[0] < 10:
        assert list(check(sch.mod["main"])) == []


def test_strides_and_dilation_of_convolutions():
    x = te.placeholder((2, 21, 23, 5), name="X")
    w = te.placeholder((3, 3, 5, 20), name="W")
    rh, rw, rc = te.reduce_axis((0, 3), "rh"), te.reduce_axis((0, 3), "rw"), te.reduce_axis((0, 5), "rc")
    y = te.compute(
        (2, 9, 10, 20),
        lambda n, h, v, f: te.sum(x[n, 2 * h + rh, 2 * v + 2 * rw, rc] * w[rh, rw, rc, f], axis=[rh, rw, rc]),
        name="Y",
    )
    func = te.create_prim_func([x, w, y])
    sch = library.schedule(func, AVX512)
    assert any(sch.get(loop).kind == ForKind.VECTORIZED for loop in sch.get_loops("Y_update"))
    assert tscript.compare(func, sch.mod["main"]).equal
    assert list(check(sch.mod["main"])) == []


def with_epilogue(m, n, k, gelu):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    bias = te.placeholder((n,), name="bias")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((m, n), lambda i, j: c[i, j] + bias[j], name="D")

    def last(i, j):
        x = d[i, j]
        return x * 0.5 * (1.0 + te.erf(x * 0.70710678)) if gelu else te.max(x, 0.0)

    from_d = (lambda i, j: last(i, j)) if gelu else (lambda i, j: T.max(d[i, j], T.float32(0)))
    e = te.compute((m, n), from_d, name="E")
    return te.create_prim_func([a, b, bias, e])


@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("shape", [(64, 128, 48), (13, 70, 21), (2, 200, 33), (30, 40, 4)])
def test_what_comes_after_is_done_tile_by_tile(shape, gelu):
    func = with_epilogue(*shape, gelu)
    sch = library.schedule(func, AVX512)
    root = sch.get_child_blocks(sch.get_block("root"))
    assert "D" not in [sch.get(x).name_hint for x in root]
    shared = set(map(id, map(sch.get, sch.get_loops("E")))) & set(map(id, map(sch.get, sch.get_loops("C_update"))))
    assert shared
    assert tscript.compare(func, sch.mod["main"]).equal
    assert list(check(sch.mod["main"])) == []
    require_replay(func, sch)


def test_recognition_is_by_structure():
    @T.prim_func
    def renamed(P: T.Buffer((8, 4), "float32"), Q: T.Buffer((4, 20), "float32"), R: T.Buffer((8, 20), "float32")):
        for x, y, z in T.grid(8, 20, 4):
            with T.block("anything"):
                vx, vy, vz = T.axis.remap("SSR", [x, y, z])
                with T.init():
                    R[vx, vy] = T.float32(0)
                R[vx, vy] = Q[vz, vy] * P[vx, vz] + R[vx, vy]

    found = find_product(renamed)
    assert found is not None
    assert (found.rows, found.column, found.reduced, found.right) == ((0,), 1, (2,), 1 if found.right else 0)
    assert library.recognise(renamed) == "product"


def test_what_is_no_product_is_not_taken_for_one():
    @T.prim_func
    def maximum(P: T.Buffer((8, 4), "float32"), Q: T.Buffer((4, 20), "float32"), R: T.Buffer((8, 20), "float32")):
        for x, y, z in T.grid(8, 20, 4):
            with T.block("anything"):
                vx, vy, vz = T.axis.remap("SSR", [x, y, z])
                with T.init():
                    R[vx, vy] = T.float32(0)
                R[vx, vy] = T.max(Q[vz, vy] * P[vx, vz], R[vx, vy])

    @T.prim_func
    def from_one(P: T.Buffer((8, 4), "float32"), Q: T.Buffer((4, 20), "float32"), R: T.Buffer((8, 20), "float32")):
        for x, y, z in T.grid(8, 20, 4):
            with T.block("anything"):
                vx, vy, vz = T.axis.remap("SSR", [x, y, z])
                with T.init():
                    R[vx, vy] = T.float32(1)
                R[vx, vy] = R[vx, vy] + Q[vz, vy] * P[vx, vz]

    for func in (maximum, from_one, workloads.softmax(8, 8).func, workloads.matvec(8, 8).func):
        assert find_contraction(func) is None
