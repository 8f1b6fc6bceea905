"""Thread launches.

Without barriers the threads of a launch run one after the other: loops in the order of their nesting,
each from its first index up; so do `virtual_thread`s and blocks of threads. Where the threads of a block
meet at barriers (or reduce across each other, or return early), each of them is a Python generator that
yields at barriers; between two barriers the threads run one after the other, in ascending order of
`x + nx * (y + ny * z)`. There, memory of scope `shared` (and `global`) is one for each block of threads,
`warp` one for each 32 consecutive threads, and every other scope one for each thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from tscript.interp.access import declare, store
from tscript.interp.calls import calls_barrier
from tscript.interp.emit import Gen, Val, nodes_below, number, paren
from tscript.interp.exprs import root
from tscript.interp.memory import Memory, Pointer
from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import Call, IterVar, Op, PrimExpr, Var
from tscript.support.errors import InterpError

_TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_SHARED_SCOPES = ("shared", "global", "warp")
_MEETINGS = frozenset(
    "tir." + n for n in "tvm_storage_sync tvm_thread_allreduce ret ptx_mma ptx_ldmatrix mma_fill mma_store".split()
)

Thread = Generator[Any, Any, Any]


def is_private(scope: str) -> bool:
    """Whether every thread has its own memory of this scope."""
    return bool(scope) and not scope.startswith(_SHARED_SCOPES)


def constant_memory(data: Any, dtype: DataType) -> Pointer:
    """Read-only memory with the elements of `data`."""
    array = np.ascontiguousarray(np.asarray(data, dtype=semantics.numpy_dtype(dtype)))
    raw = array.reshape(-1).view(np.uint8).tobytes()
    return Pointer(Memory(memoryview(raw or bytes(8)), shadow=bytearray(b"\x01") * max(8, len(raw))), 0)


# -- translation ----------------------------------------------------------------------------------


def launch_axis(g: Gen, axis: IterVar, extent: PrimExpr, body: st.Stmt, loop: Callable[..., None]) -> None:
    """The attributes `thread_extent` and `virtual_thread`: run `body` for each index of `axis`."""
    if axis.var in g.launched:
        g.stmt(body)
        return
    start = ex.IntImm(axis.var.dtype, 0)
    same = g.launched_tags.get(axis.thread_tag) if axis.thread_tag.startswith(("threadIdx", "blockIdx")) else None
    if extent.dtype is not axis.var.dtype:
        extent = ex.Cast(axis.var.dtype, extent)
    g.launched.add(axis.var)
    if same is not None and not g.in_threads:
        # Another name for a thread index that is bound already.
        index, count = same
        mine = root(g, extent)
        g.env[axis.var] = index
        if mine.code == count.code:
            g.stmt(body)
        else:
            g.push()
            g.stmt(body)
            g.pop(f"if {index.code} < {paren(mine)}:")
    elif not launch(g, axis.var, axis.thread_tag, start, extent, body):
        before = dict(g.launched_tags)

        def iteration() -> None:
            g.launched_tags.setdefault(axis.thread_tag, (g.env[axis.var], root(g, extent)))
            g.stmt(body)

        loop(g, axis.var, start, extent, iteration)
        g.launched_tags = before
    g.launched.discard(axis.var)


def launch(g: Gen, var: Var, tag: str, start: PrimExpr, extent: PrimExpr, body: st.Stmt) -> bool:
    """Run `body` with `var` as thread index `tag`, where plain loops would not do; False where they do."""
    if tag not in _TAGS:
        return False
    if g.in_threads:
        _bind_thread(g, var, tag, start, extent, body)
        return True
    if not threads_meet(g, body):
        return False
    extents = _collect_extents(body, tag, extent)
    counts = [g.hold(root(g, e)) for e in (extents.get(t, ex.IntImm("int32", 1)) for t in _TAGS)]
    name = g.name("threads")
    views, levels, loops = dict(g.views), dict(g.pointer_levels), g.loops
    g.push(function=True)
    g.in_threads = True
    index: list[str] = []
    for t, count in zip(_TAGS, counts, strict=True):
        made = g.name("t" + t[-1])
        index.append(made)
        g.threads[t] = (g.named(made, 0, max(0, count.hi - 1)), count)
    for pointer_var, text in g.private:
        g.line(text)
        g.pointer_levels[pointer_var] = g.level
        for buffer in [b for b in g.views if b.data is pointer_var]:
            del g.views[buffer]
    _bind_thread(g, var, tag, start, extent, body)
    g.line("return")
    g.line("yield")
    g.in_threads = False
    g.threads.clear()
    g.views, g.pointer_levels, g.loops = views, levels, loops
    g.pop(f"def {name}(_block, _thread, {', '.join(index)}):")
    g.line(f"_run_threads(_run, {name}, ({', '.join(c.code for c in counts)}))")
    return True


def _bind_thread(g: Gen, var: Var, tag: str, start: PrimExpr, extent: PrimExpr, body: st.Stmt) -> None:
    if tag not in g.threads:
        raise InterpError(f"{tag} is launched where its extent is not known from outside")
    index, count = g.threads[tag]
    low, mine = root(g, start), root(g, extent)
    before = g.loops
    whole = mine.code == count.code
    if not whole:
        g.push()
    if low.code == "0":
        g.env[var] = Val(index.code, True, 0, max(0, min(index.hi, mine.hi - 1)), index.level, index.terms, index.const)
        name = index.code
    else:
        name = g.name(var.name)
        g.line(f"{name} = {index.code} + {low.code}")
        g.env[var] = g.named(name, low.lo, low.hi + index.hi)
    g.loops = (*before, (var.name, name))
    g.thread_tags[var] = tag
    g.stmt(body)
    g.loops = before
    if not whole:
        g.pop(f"if {index.code} < {paren(mine)}:")


def threads_meet(g: Gen, body: st.Stmt) -> bool:
    """Whether threads that run `body` have to wait for each other, or end at different points."""
    return any(
        n.op.name in _MEETINGS if isinstance(n.op, Op) else calls_barrier(g, n.op)
        for n in nodes_below(body)
        if isinstance(n, Call)
    )


def _collect_extents(body: st.Stmt, tag: str, extent: PrimExpr) -> dict[str, PrimExpr]:
    """The extent of each thread index launched in `body`: the largest, where several are constant."""
    found: dict[str, PrimExpr] = {tag: extent}

    def meet(name: str, e: PrimExpr) -> None:
        old = found.get(name)
        if old is None or (isinstance(old, ex.IntImm) and isinstance(e, ex.IntImm) and e.value > old.value):
            found[name] = e

    for n in nodes_below(body):
        if isinstance(n, st.AttrStmt) and n.attr_key == "thread_extent" and isinstance(n.node, IterVar):
            if n.node.thread_tag in _TAGS:
                meet(n.node.thread_tag, n.value)
        elif isinstance(n, st.For) and n.thread_binding is not None and n.thread_binding.thread_tag in _TAGS:
            meet(n.thread_binding.thread_tag, n.extent)
    return found


def barrier(g: Gen, e: PrimExpr) -> None:
    """A statement `tvm_storage_sync`."""
    scope = e.args[0] if isinstance(e, Call) and e.args else None
    if isinstance(scope, ex.StringImm) and scope.value == "global":
        raise InterpError(
            "a barrier of all blocks (tvm_storage_sync of 'global') cannot be run; launch two kernels instead"
        )
    if g.in_threads:
        g.line(f"yield {g.name('_barrier')!r}")


def all_reduce(g: Gen, e: PrimExpr) -> None:
    """A statement `tvm_thread_allreduce(n, values.., condition, results.., threads..)` under a `reduce_scope`."""
    assert isinstance(e, Call)
    if not g.reducers:
        raise InterpError("tvm_thread_allreduce needs an enclosing attribute reduce_scope with the reducer")
    reducer = g.reducers[-1]
    n = int(e.args[0])
    values = [g.hold(root(g, v)) for v in e.args[1 : 1 + n]]
    condition = root(g, e.args[1 + n])
    identity = [root(g, i) for i in reducer.identity_element]
    combine = _combiner(g, reducer)
    given, start = ("".join(f"{v.code}, " for v in vs) for vs in (values, identity))
    result = g.name("reduced")
    if g.in_threads:
        reduced = {g.thread_tags[v] for v in e.args[2 + 2 * n :] if isinstance(v, Var) and v in g.thread_tags}
        key = "".join(f"{g.threads[t][0].code}, " for t in _TAGS if t not in reduced)
        site = g.name("barrier")
        g.line(f"{result} = yield ({site!r}, ({key}), ({given}), {condition.code}, {combine}, ({start}))")
    else:
        g.line(f"{result} = ({given}) if {paren(condition)} else ({start})")
    for i, target in enumerate(e.args[2 + n : 2 + 2 * n]):
        _store_result(g, target, f"{result}[{i}]", e.args[1 + i].dtype)


def _combiner(g: Gen, reducer: ex.CommReducer) -> str:
    name = g.name("combine")
    g.push(function=True)
    names: list[str] = []
    for v in (*reducer.lhs, *reducer.rhs):
        made = g.name(v.name)
        names.append(made)
        low, high = (0, 0) if v.dtype.is_float else int_range(v.dtype)
        g.env[v] = g.named(made, low, high)
    results = [root(g, r) for r in reducer.result]
    g.line("return (" + "".join(f"{r.code}, " for r in results) + ")")
    g.pop(f"def {name}({', '.join(names)}):")
    return name


def _store_result(g: Gen, target: PrimExpr, code: str, dtype: DataType) -> None:
    if isinstance(target, ex.Cast):
        target = target.value
    if isinstance(target, ex.BufferLoad):
        store(g, target.buffer, target.indices, [root(g, i) for i in target.indices], Val(code, True), None, False)
    elif isinstance(target, Var) and target in g.pointers:
        one = Buffer(target, dtype, (ex.IntImm("int32", 1),), (), ex.IntImm("int32", 0), target.name)
        declare(g, one)
        store(g, one, (ex.IntImm("int32", 0),), [number(0)], Val(code, True), None, False)
    else:
        raise InterpError("tvm_thread_allreduce writes to a buffer element or the address of one")


# -- execution ------------------------------------------------------------------------------------


class ThreadBlock:
    """Memory that the threads of one block share."""

    def __init__(self, allocate: Callable[[int, str], Pointer]) -> None:
        self._allocate = allocate
        self._made: dict[tuple[str, int, int], Pointer] = {}
        self._visits: dict[tuple[str, int], int] = {}

    def shared(self, thread: int, site: str, nbytes: int, name: str, warp: bool) -> Pointer:
        """The memory of an allocation: the same for the n-th time each thread comes by."""
        visit = self._visits.get((site, thread), 0)
        self._visits[site, thread] = visit + 1
        key = (site, visit, thread // 32 if warp else -1)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._allocate(nbytes, name)
        return found


def run_threads(block: ThreadBlock, body: Callable[..., Thread], extents: tuple[int, int, int]) -> None:
    """Run the threads of a block, from barrier to barrier."""
    nx, ny, nz = extents
    ids = [(x, y, z) for z in range(nz) for y in range(ny) for x in range(nx)]
    waiting = [(i, body(block, n, *i)) for n, i in enumerate(ids)]
    answers: list[Any] = [None] * len(waiting)
    while waiting:
        arrived: list[tuple[tuple[int, int, int], Thread, Any]] = []
        left: list[tuple[int, int, int]] = []
        for (index, thread), answer in zip(waiting, answers, strict=True):
            try:
                arrived.append((index, thread, thread.send(answer)))
            except StopIteration:
                left.append(index)
        _require_together(arrived, left)
        answers = _answers([request for _, _, request in arrived])
        waiting = [(index, thread) for index, thread, _ in arrived]


def _require_together(
    arrived: list[tuple[tuple[int, int, int], Thread, Any]], left: list[tuple[int, int, int]]
) -> None:
    if not arrived:
        return
    if left:
        raise InterpError(
            f"divergent barrier: thread {arrived[0][0]} (threadIdx x, y, z) waits at a barrier "
            f"that thread {left[0]} never reaches; move the barrier out of the branch"
        )
    first = _site(arrived[0][2])
    for index, _, request in arrived:
        if _site(request) != first:
            raise InterpError(
                f"divergent barrier: threads {arrived[0][0]} and {index} (threadIdx x, y, z) "
                "wait at different barriers; all threads of a block must meet at the same one"
            )


def _site(request: Any) -> str:
    return request if isinstance(request, str) else request[0]


def _answers(requests: list[Any]) -> list[Any]:
    if not requests or isinstance(requests[0], str):
        return [None] * len(requests)
    groups: dict[Any, Any] = {}
    for _, key, values, condition, combine, identity in requests:
        so_far = groups.get(key, identity)
        groups[key] = combine(*so_far, *values) if condition else so_far
    return [groups[r[1]] for r in requests]
