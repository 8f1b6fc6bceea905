"""Rewriting subtrees: which block became which, copies, exchanged buffers, removed statements."""

from __future__ import annotations

from typing import Any

import pytest

from tscript.ir.base import Node
from tscript.ir.functor import pre_order_visit
from tscript.ir.stmt import Block, For, SeqStmt
from tscript.ir.structural import assert_structural_equal
from tscript.schedule import Schedule, ScheduleError
from tscript.schedule.rewrite import (
    followed,
    fresh_copy,
    insert_after,
    insert_before,
    remove_stmt,
    replace_buffers,
    require_removable,
    statement_of,
    with_scope,
)
from tscript.script import tir as T


@T.prim_func
def two(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v]


def below(node: Node, kind: type[Any]) -> list[Any]:
    found: list[Any] = []

    def look(n: object) -> bool:
        if isinstance(n, kind):
            found.append(n)
        return True

    pre_order_visit(node, look)
    return found


def test_exchanging_a_buffer_changes_its_uses_but_not_its_allocation_and_tells_the_changed_blocks():
    root = two.body.block
    (buffer,) = root.alloc_buffers
    new = with_scope(buffer, "shared")
    assert (new.name, new.scope()) == ("B_shared", "shared")
    changed, reuse = replace_buffers(root, {buffer: new})
    assert changed.alloc_buffers == (buffer,)
    assert [old.name_hint for old in reuse] == ["B", "C", "root"]
    assert "B[" not in "".join(str(b.body) for b in below(changed.body, Block))
    moved, _ = replace_buffers(root, {buffer: new}, definitions=True)
    assert moved.alloc_buffers == (new,)


def test_an_exchange_of_nothing_is_the_same_object():
    root = two.body.block
    other = with_scope(root.alloc_buffers[0], "local")
    changed, reuse = replace_buffers(root, {other: other})
    assert changed is root
    assert reuse == {}


def test_a_copy_shares_no_loop_block_or_variable():
    loop = two.body.block.body.seq[0]
    copy = fresh_copy(loop, rename=lambda name: name + "_copy")
    assert copy.loop_var.name == "i_copy"
    assert not set(map(id, below(loop, (For, Block)))) & set(map(id, below(copy, (For, Block))))
    assert copy.body.block.iter_vars[0].var is not loop.body.block.iter_vars[0].var
    assert copy.body.block.iter_vars[0].var.name == "v"
    assert_structural_equal(copy, loop, map_free_vars=True)


def test_a_copy_of_a_block_without_axes_is_another_object():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        with T.block("outer"):
            B = T.alloc_buffer((8,))
            with T.block("inner"):
                B[0] = A[0]

    block = func.body.block
    copy = fresh_copy(block)
    assert copy is not block and copy.body.block is not block.body.block
    assert copy.alloc_buffers[0] is not block.alloc_buffers[0]
    assert copy.body.block.body.buffer is copy.alloc_buffers[0]


def test_insertion_flattens_sequences_and_removal_collapses_them():
    root = two.body.block
    first, second = root.body.seq
    extra = fresh_copy(first)
    assert insert_before(root, second, extra)[0].body.seq == (first, extra, second)
    assert insert_after(root, second, extra)[0].body.seq == (first, second, extra)
    inside, reuse = insert_before(root, first.body, extra)
    assert isinstance(inside.body.seq[0].body, SeqStmt)
    assert list(reuse) == [root]
    assert remove_stmt(root, first)[0].body is second


def test_what_can_be_removed_is_found_from_the_block_upward():
    sch = Schedule(two)
    block = sch.block(sch.get_block("C"))
    (root,) = sch.state.roots
    loop = sch.loop(sch.get_loops("C")[0])
    assert require_removable(sch.state, block, root) is statement_of(sch.state, loop)


def test_the_only_statement_of_a_scope_and_a_branch_cannot_be_removed():
    @T.prim_func
    def single(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = T.float32(0)

    @T.prim_func
    def branch(A: T.Buffer((8,), "float32"), n: T.int32):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                A[v] = T.float32(1)
            if n > 0:
                with T.block("A"):
                    v = T.axis.spatial(8, i)
                    A[v] = T.float32(0)
            else:
                T.evaluate(n)

    for func in (single, branch):
        sch = Schedule(func)
        (root,) = sch.state.roots
        with pytest.raises(ScheduleError, match="only statement of"):
            require_removable(sch.state, sch.block(sch.get_block("A")), root)


def test_reuse_follows_two_rewrites():
    a, b, c = (two.body.block.replace(name_hint=name) for name in "abc")
    d = two.body.block
    assert followed({a: b}, {b: c}) == {a: c}
    assert followed({a: b}, {d: c}) == {a: b, d: c}
