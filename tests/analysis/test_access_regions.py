"""Regions found in a block: exact where the spec's table says so, and never too small."""

from __future__ import annotations

import pytest

from tscript import interp
from tscript.analysis import detect_regions
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.expr import EQ, NE, IterVar, PrimExpr, Range, SizeVar, Var
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, IfThenElse, LetStmt, Stmt, seq
from tscript.testing.random_program import random_arguments, random_program

A, C = decl_buffer((64,), name="A"), decl_buffer((64,), name="C")
B = decl_buffer((64,), "int32", name="B")
VI, K, M = Var("vi"), Var("k"), Var("m")
N = SizeVar("n")


def block(body: Stmt, init: Stmt | None = None, alloc: tuple[Buffer, ...] = ()) -> Block:
    return Block((IterVar(Range(0, 16), VI, 0),), (), (), "b", body, init, alloc)


def loop(extent: int | PrimExpr, body: Stmt, var: Var = K, begin: int = 0) -> For:
    return For(var, make.convert(begin), make.convert(extent), 0, body)


def store(buffer: Buffer, index: PrimExpr | int, value: PrimExpr | float) -> BufferStore:
    return BufferStore(buffer, make.convert(value), (make.convert(index),))


def form(regions: tuple[BufferRegion, ...]) -> list[tuple[str, PrimExpr, PrimExpr]]:
    return [(r.buffer.name, r.region[0].min, r.region[0].extent) for r in regions]


def one(name: str, low: PrimExpr | int, extent: PrimExpr | int = 1) -> tuple[str, PrimExpr, PrimExpr]:
    return name, make.convert(low), make.convert(extent)


def check(b: Block, reads: list[tuple[str, PrimExpr, PrimExpr]], writes: list[tuple[str, PrimExpr, PrimExpr]]) -> None:
    for got, want in zip(detect_regions(b), (reads, writes), strict=True):
        assert len(form(got)) == len(want)
        for (n1, low1, extent1), (n2, low2, extent2) in zip(form(got), want, strict=True):
            assert n1 == n2
            assert low1 is low2
            assert extent1 is extent2


def test_two_points_a_constant_apart_become_one_range() -> None:
    check(block(store(C, VI, make.max_(A[VI], A[VI + 8]))), [one("A", VI, 9)], [one("C", VI)])


def test_inner_loop_is_relaxed() -> None:
    update = store(C, VI, C[VI] + A[VI * 4 + K])
    check(block(loop(4, update)), [one("C", VI), one("A", VI * 4, 4)], [one("C", VI)])


def test_init_takes_written_buffers_out_of_the_reads() -> None:
    update = store(C, VI, C[VI] + A[VI * 4 + K])
    check(block(loop(4, update), init=store(C, VI, 0.0)), [one("A", VI * 4, 4)], [one("C", VI)])


def test_subscript_that_loads_is_a_point_and_a_read() -> None:
    check(block(store(C, VI, A[B[VI]])), [one("A", B[VI]), one("B", VI)], [one("C", VI)])


def test_subscript_that_loads_at_a_loop_variable_means_the_whole_dimension() -> None:
    check(block(loop(8, store(C, VI, A[B[K]]))), [one("A", 0, 64), one("B", 0, 8)], [one("C", VI)])


def test_condition_narrows_the_loop_in_both_branches() -> None:
    body = IfThenElse(K < 4, store(C, K, A[K]), store(C, K, A[K + 32]))
    check(block(loop(8, body)), [one("A", 0, 40)], [one("C", 0, 8)])
    check(block(loop(8, IfThenElse(K < 4, store(C, K, A[K])))), [one("A", 0, 4)], [one("C", 0, 4)])
    flipped = make.or_(make.not_(3 >= K), K > 6)
    check(block(loop(8, IfThenElse(flipped, store(C, K, 0.0)))), [], [one("C", 0, 8)])


def test_condition_that_never_holds_keeps_a_region_of_positive_extent() -> None:
    check(block(loop(4, IfThenElse(K > 9, store(C, K, A[K])))), [one("A", 0, 4)], [one("C", 0, 4)])


def test_if_then_else_of_an_axis_keeps_the_point() -> None:
    check(block(store(C, VI, make.if_then_else(VI > 0, A[VI - 1], 0.0))), [one("A", VI - 1)], [one("C", VI)])


def test_buffer_allocated_inside_is_left_out() -> None:
    local = decl_buffer((4,), name="L")
    body = seq(loop(4, store(local, K, A[K])), store(C, VI, local[2]))
    check(block(body, alloc=(local,)), [one("A", 0, 4)], [one("C", VI)])


def test_inner_block_counts_with_its_declared_regions() -> None:
    vk = Var("vk")
    inner = Block(
        (IterVar(Range(0, 4), vk, 0),),
        (BufferRegion(A, (Range.from_min_extent(vk * 4 + VI, 1),)),),
        (BufferRegion(C, (Range.from_min_extent(VI * 4 + vk, 1),)),),
        "inner",
        store(C, VI * 4 + vk, A[vk * 4 + VI]),
    )
    nest = loop(4, BlockRealize((K,), make.const(True), inner))
    check(block(nest), [one("A", VI, 13)], [one("C", VI * 4, 4)])


def test_let_is_seen_through() -> None:
    body = loop(4, LetStmt(M, VI * 4 + K, store(C, M, A[M])))
    check(block(body), [one("A", VI * 4, 4)], [one("C", VI * 4, 4)])


@pytest.mark.parametrize("index", [VI + 2147483647, VI - 5 - 2147483647, VI * 536870912, (K + 2147483646) * 2])
def test_subscripts_that_wrap_around_may_be_anywhere(index: PrimExpr) -> None:
    body = loop(4, store(C, VI, A[index % 5]))
    check(block(body), [one("A", 0, 64)], [one("C", VI)])


def test_the_subscripts_of_a_program_that_wraps_are_within_its_regions() -> None:
    func = random_program(506258)
    interp.run(func, *random_arguments(func, 506258))


def test_symbolic_extent_and_start_give_symbolic_regions() -> None:
    check(block(loop(N, store(C, K, A[K]))), [one("A", 0, N)], [one("C", 0, N)])
    check(block(loop(N - 2, store(C, K, A[VI]), begin=2)), [one("A", VI)], [one("C", 2, N - 2)])


def test_division_and_remainder_by_constants() -> None:
    body = loop(16, store(C, K % 4, A[K // 4] + A[(VI * 4 + K % 4) // 4]))
    check(block(body), [one("A", 0, make.max_(VI, 3) + 1)], [one("C", 0, 4)])


def test_escaping_pointer_asks_for_annotations() -> None:
    call = make.call_intrin("int32", "tir.call_extern", "f", C.data)
    from_stmt = block(seq(store(C, VI, 0.0), store(B, VI, call)))
    with pytest.raises(ValueError, match="declare them"):
        detect_regions(from_stmt, {C.data: C})


def test_access_ptr_touches_the_whole_buffer() -> None:
    call = make.call_intrin("int32", "tir.call_extern", "f", A.access_ptr("r"), C.access_ptr("w"))
    got = detect_regions(block(store(B, VI, call)), {A.data: A, C.data: C})
    assert [r.buffer.name for r in got[0]] == ["A"]
    assert [r.buffer.name for r in got[1]] == ["B", "C"]
    assert got[0][0].region[0].extent is make.convert(64)


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        (K * 2 < 7, 0, 3),
        (K * 2 <= 7, 0, 3),
        (K * 2 > 7, 4, 7),
        (K * 2 >= 7, 4, 7),
        (K * -2 < -7, 4, 7),
        (K * -3 >= -7, 0, 2),
        (7 > K * 3, 0, 2),
        (K * 2 < 8, 0, 3),
        (K * 2 <= 8, 0, 4),
        (make.compare(EQ, K * 2, 6), 3, 3),
        (make.compare(EQ, K * 2, 7), 0, 7),
        (make.compare(NE, K, 0), 1, 7),
        (make.compare(NE, K, 7), 0, 6),
        (make.compare(NE, K, 3), 0, 7),
        (make.compare(NE, K * 2, 14), 0, 6),
        (make.not_(make.compare(EQ, K, 0)), 1, 7),
    ],
)
def test_a_condition_with_a_factor_narrows_to_what_the_variable_can_be(
    condition: PrimExpr, low: int, high: int
) -> None:
    body = IfThenElse(condition, store(C, K, A[K]))
    check(block(loop(8, body)), [one("A", low, high - low + 1)], [one("C", low, high - low + 1)])


def test_a_symbolic_condition_with_a_factor_narrows_when_it_divides() -> None:
    b = block(loop(N, IfThenElse(K * 2 < VI * 2, store(C, K, 0.0))))
    assert form(detect_regions(b)[1]) == form(detect_regions(block(loop(N, IfThenElse(K < VI, store(C, K, 0.0)))))[1])


def test_a_block_without_values_is_relaxed_over_its_axes() -> None:
    v = Var("v")
    axes = (IterVar(Range(0, 4), v, 0),)
    regions = [BufferRegion(b, (Range.from_min_extent(v + low, make.convert(1)),)) for b, low in ((A, 4), (C, 0))]
    inner = Block(axes, (regions[0],), (regions[1],), "inner", store(C, v, A[v + 4]))
    check(block(inner), [one("A", 4, 4)], [one("C", 0, 4)])
