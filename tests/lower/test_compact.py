"""Memory is taken where it is used, and only as much of it as is used there."""

from __future__ import annotations

import numpy as np
import pytest

import tscript
from tscript import interp
from tscript.ir.function import PrimFunc
from tscript.lower.compact import compact_buffers
from tscript.runtime import num_threads, set_num_threads
from tscript.script import tir as T
from tscript.tir import Schedule


@T.prim_func
def blur(A: T.Buffer((130, 20), "float32"), C: T.Buffer((128, 20), "float32")):
    B = T.alloc_buffer((130, 20))
    for i, j in T.grid(130, 20):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(128, 20):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 1, vj] + B[vi + 2, vj]


def scheduled(parts: int, kind: str = "parallel") -> PrimFunc:
    sch = Schedule(blur)
    i, _ = sch.get_loops("C")
    outer, _ = sch.split(i, [parts, None])
    sch.compute_at("B", outer)
    if kind == "parallel":
        sch.parallel(outer)
    return sch.mod["main"]


def lowered(func: PrimFunc) -> str:
    (found,) = tscript.lower(func).functions.values()
    return found.script()


def test_what_neighbours_both_compute_is_computed_in_memory_of_each():
    text = lowered(scheduled(8))
    assert text.index("T.parallel(8)") < text.index("B = T.decl_buffer((360,))"), text
    before = num_threads()
    try:
        a = np.random.default_rng(0).random((130, 20)).astype("float32")
        lib = tscript.build(scheduled(8))
        for threads in (1, 2, 5):
            set_num_threads(threads)
            for _ in range(20):
                c = np.zeros((128, 20), "float32")
                lib(a, c)
                np.testing.assert_array_equal(c, 2 * a[:-2] + 2 * a[1:-1] + 2 * a[2:])
    finally:
        set_num_threads(before)


def test_a_last_part_that_is_cut_off_stays_inside():
    lib = tscript.build(scheduled(7))
    a = np.random.default_rng(0).random((130, 20)).astype("float32")
    c = np.zeros((128, 20), "float32")
    lib(a, c)
    np.testing.assert_array_equal(c, 2 * a[:-2] + 2 * a[1:-1] + 2 * a[2:])


def places(func: PrimFunc) -> str:
    """The program as `compact_buffers` leaves it."""
    seen: dict[str, str] = {}
    tscript.lower(func, watch=lambda name, f: seen.setdefault(name, f.script()))
    return seen["compact_buffers"]


def agree(func: PrimFunc, *arrays: np.ndarray) -> str:
    """What `places` says of a program, of which native code must do what the interpreter does."""
    native = [a.copy() for a in arrays]
    expected = [a.copy() for a in arrays]
    tscript.build(func)(*native)
    interp.run(func, *expected)
    for got, want in zip(native, expected, strict=True):
        np.testing.assert_array_equal(got, want)
    return places(func)


def test_an_iteration_in_order_that_writes_all_it_reads_has_memory_of_its_own():
    text = places(scheduled(8, "serial"))
    assert text.index("for i_0 in range(8)") < text.index("B = T.decl_buffer((18, 20))"), text
    a = np.random.default_rng(0).random((130, 20)).astype("float32")
    agree(scheduled(8, "serial"), a, np.zeros((128, 20), "float32"))
    # The last of seven parts is cut off: what it reads is bounded by the same conditions as what is written.
    text = agree(scheduled(7, "serial"), a, np.zeros((128, 20), "float32"))
    assert text.index("for i_0 in range(7)") < text.index("B = T.decl_buffer((21, 20))"), text


@T.prim_func
def running_sum(A: T.Buffer((3, 8), "int32"), C: T.Buffer((3, 8), "int32")):
    B = T.decl_buffer((8,), "int32")
    for t in range(3):
        for i in T.parallel(8):
            if t == 0:
                B[i] = 0
            B[i] = B[i] + A[t, i]
            C[t, i] = B[i]


@T.prim_func
def last_one(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    B = T.decl_buffer((2,), "int32")
    B[1] = 7
    for i in range(64):
        B[i % 2] = A[i]
        C[i] = B[(i + 1) % 2]


@T.prim_func
def sometimes(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    B = T.decl_buffer((64, 4), "int32")
    for i in range(64):
        for j in range(4):
            if j < 3 or i == 0:
                B[0, j] = A[i] + j
        for j in range(4):
            C[i] = C[i] + B[0, j]


@T.prim_func
def by_changing_index(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.decl_buffer((16, 16), "int32")
    for i in range(16):
        B[0, i] = i
    for i in range(8):
        B[0, A[i]] = i
        A[i] = A[i] + 1
        C[i] = B[0, A[i]]


@T.prim_func
def shrinking_guard(A: T.Buffer((4,), "int32"), C: T.Buffer((64,), "int32")):
    B = T.decl_buffer((64, 16), "int32")
    for i in range(64):
        if i == 0:
            for j in range(16):
                B[0, j] = 100
        for j in range(16):
            if j < A[0]:
                B[0, j] = i
        A[0] = A[0] + (i + 1) // 16
        for j in range(16):
            if j < A[0]:
                C[i] = C[i] + B[0, j]


@pytest.mark.parametrize("func", [running_sum, last_one, sometimes, by_changing_index, shrinking_guard])
def test_memory_stays_where_a_loop_hands_on_what_is_in_it(func: PrimFunc):
    rows = next(iter(func.buffer_map.values())).shape
    a = np.arange(np.prod([int(n) for n in rows])).reshape([int(n) for n in rows]).astype("int32") % 5 + 3
    c = np.zeros([int(n) for n in list(func.buffer_map.values())[1].shape], "int32")
    text = agree(func, a, c)
    assert text.index("decl_buffer") < text.index("for "), text


@T.prim_func
def reduced(A: T.Buffer((32, 64), "float32"), C: T.Buffer((32,), "float32")):
    S = T.alloc_buffer((32,))
    for i, k0, k1 in T.grid(32, 5, 15):
        with T.block("S"):
            vi = T.axis.spatial(32, i)
            vk = T.axis.reduce(64, k0 * 15 + k1)
            T.where(k0 * 15 + k1 < 64)
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
        if k0 == 4 and k1 == 14:
            C[i] = S[i] * T.float32(0.5)


def test_the_init_of_a_reduction_counts_as_a_write_before_all_its_updates():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, (32, 64)).astype("float32")
    text = agree(reduced, a, np.zeros(32, "float32"))
    assert text.index("for i in range(32)") < text.index("S = T.decl_buffer((1,))"), text


@T.prim_func
def backwards(A: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")):
    B = T.decl_buffer((32,), "int32")
    for i in range(4):
        for j in T.vectorized(8):
            B[i * 8 + 7 - j] = A[i * 8 + j]
        for j in range(8):
            C[i * 8 + j] = B[i * 8 + j]


@T.prim_func
def nested(A: T.Buffer((8, 8, 8), "int32"), C: T.Buffer((8, 8, 8), "int32")):
    B = T.decl_buffer((8, 8, 8), "int32")
    D = T.decl_buffer((8, 8, 8), "int32")
    for i in range(8):
        for j, k in T.grid(8, 8):
            B[i, j, k] = A[i, j, k] + 1
        for j in range(8):
            for k in range(8):
                D[i, 7 - j, k] = B[i, j, 7 - k] * 2
            for k in range(8):
                C[i, j, k] = D[i, 7 - j, k] + B[i, j, k]


@T.prim_func
def unit(A: T.Buffer((1,), "int32"), C: T.Buffer((1,), "int32")):
    B = T.decl_buffer((1,), "int32")
    for i in range(1):
        B[i] = A[i]
        C[i] = B[i]


@T.prim_func
def never(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.decl_buffer((4, 4), "int32")
    for i in range(4):
        for j in range(0):
            B[i, j] = A[i]
        for j in range(0):
            C[i] = B[i, j]


@T.prim_func
def scalar(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.decl_buffer((), "int32")
    for i in range(4):
        B[()] = A[i]
        C[i] = B[()]


@T.prim_func
def by_name(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.decl_buffer((32, 16), "int32")
    for i in range(16):
        row: T.int32 = i * 2  # pyright: ignore[reportAssignmentType]
        for j in range(16):
            B[row, j] = A[j] + i
        C[i] = B[row, i] + B[row, 15 - i]


@pytest.mark.parametrize(
    ("func", "shapes"),
    [
        (backwards, ["(8,)"]),
        (nested, ["(1, 8, 8)", "(1, 1, 8)"]),
        (never, ["(1, 0)"]),
        (by_name, ["(1, 16)"]),
    ],
)
def test_memory_has_the_size_of_what_is_reached_from_its_place(func: PrimFunc, shapes: list[str]):
    first, second = (np.zeros([int(n) for n in b.shape], "int32") for b in func.buffer_map.values())
    first[...] = np.arange(first.size).reshape(first.shape) * 3
    text = agree(func, first, second)
    for shape in shapes:
        assert f'T.decl_buffer({shape}, "int32")' in text, text


@pytest.mark.parametrize("func", [unit, scalar])
def test_memory_of_one_element_stays_one(func: PrimFunc):
    n = int(next(iter(func.buffer_map.values())).shape[0])
    agree(func, np.arange(n, dtype="int32"), np.zeros(n, "int32"))


def test_sizes_may_be_symbolic_and_indices_of_64_bits():
    @T.prim_func
    def func(a: T.handle, c: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "int32")
        C = T.match_buffer(c, (n, m), "int32")
        B = T.decl_buffer((n, m + 2), "int32")
        for i in T.serial(n):
            for j in T.serial(m + T.int64(2)):
                B[i, j] = T.if_then_else(j < m, A[i, T.min(j, m - 1)], 0)
            for j in T.serial(m):
                C[i, j] = B[i, j] + B[i, j + 2]

    for shape in [(3, 5), (1, 1), (0, 4), (4, 0)]:
        a = np.arange(shape[0] * shape[1], dtype="int32").reshape(shape)
        text = agree(func, a, np.zeros(shape, "int32"))
    assert "T.decl_buffer((T.int64(1), m + T.int64(2))" in text and text.index("for i") < text.index("B = T."), text


def test_a_program_that_has_nothing_to_place_comes_back_itself():
    @T.prim_func
    def func(A: T.Buffer((16,), "int32")):
        B = T.decl_buffer((16,), "int32")
        for i in range(16):
            B[i] = A[i]
        for i in range(16):
            A[i] = B[15 - i]

    assert compact_buffers(func) is func


@T.prim_func
def used_after(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    B = T.decl_buffer((64,), "int32")
    for i in T.parallel(64):
        B[i] = A[i] * 2
    for i in T.parallel(64):
        C[i] = B[63 - i]


@T.prim_func
def by_address(A: T.Buffer((64,), "int32")):
    B = T.decl_buffer((4, 64), "int32")
    for i in T.parallel(64):
        B[1, i] = A[i]
        T.evaluate(T.call_extern("int32", "memset", T.address_of(B[2, 0]), 0, 4))
        A[i] = B[1, i] + B[2, 0]


@T.prim_func
def by_loaded_index(A: T.Buffer((64,), "int32")):
    B = T.decl_buffer((64, 8), "int32")
    for i in T.parallel(64):
        for j in range(8):
            B[A[i], j] = i + j
        A[i] = B[A[i], 3]


def test_what_several_loops_use_stays_around_them():
    text = lowered(used_after)
    assert text.index("decl_buffer") < text.index("T.parallel")
    a, c = np.arange(64).astype("int32"), np.zeros(64, "int32")
    tscript.build(used_after)(a, c)
    assert (c == 2 * a[::-1]).all()


@pytest.mark.parametrize("func", [by_address, by_loaded_index])
def test_memory_whose_touched_part_is_unknown_moves_whole(func):
    text = lowered(func)
    size = 256 if func is by_address else 512
    assert text.index("T.parallel") < text.index(f"T.decl_buffer(({size},)"), text
    a = np.arange(64).astype("int32")
    tscript.build(func)(a)
    assert (a == (np.arange(64) if func is by_address else np.arange(64) + 3)).all()
