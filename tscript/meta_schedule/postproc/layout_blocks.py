"""Blocks that rearrange constant weights once: a build leaves them out, and the weights are given in the new layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tscript.driver import build
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, IntImm, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block, BlockRealize, BufferStore, For, SeqStmt, Stmt
from tscript.meta_schedule.arg_info import entry_function
from tscript.schedule.bindings import TRUE
from tscript.support.errors import TuneError

LAYOUT_BLOCK = "meta_schedule.layout_rewrite_preproc"
"""The annotation of a block that copies a weight into another layout."""


_Program = TypeVar("_Program", IRModule, PrimFunc)


def remove_layout_blocks(mod: _Program) -> _Program:
    """The module, or function, without its layout-rewriting blocks; its weights are expected in the new layout.

    Each parameter that such a block copies becomes the copy. `lay_out` brings arguments into the new layout. Raises
    TuneError where the copied parameter is used elsewhere, too, so that it is needed in the old layout.

    >>> from tscript.testing.workloads import matmul
    >>> mod = IRModule({"main": matmul(8, 8, 8).func})
    >>> remove_layout_blocks(mod) is mod
    True
    """
    if isinstance(mod, PrimFunc):
        return _without(mod)
    functions = {v: _without(f) for v, f in mod.functions.items()}
    return mod if all(functions[v] is f for v, f in mod.functions.items()) else mod.replace(functions=functions)


def layout_functions(mod: IRModule | PrimFunc) -> dict[int, PrimFunc]:
    """For each parameter of the entry function that a layout-rewriting block copies, by its number: a function that
    makes the new layout, its second parameter, of the old, its first.

    >>> from tscript.testing.workloads import matmul
    >>> layout_functions(matmul(8, 8, 8).func)
    {}
    """
    func = entry_function(mod)
    numbers = {func.buffer_map[p]: k for k, p in enumerate(func.params) if p in func.buffer_map}
    found: dict[int, PrimFunc] = {}
    for nest in _layout_nests(func):
        source, copy = _ends(nest)
        root = BlockRealize((), TRUE, Block((), (), (), "root", nest))
        handles = Var(source.name, "handle"), Var(copy.name, "handle")
        made = PrimFunc(handles, root, buffer_map=dict(zip(handles, (source, copy), strict=True)))
        found[numbers[source]] = made.with_attr({"global_symbol": "main", "tir.noalias": True})
    return found


def lay_out(mod: IRModule | PrimFunc, arguments: Sequence[Any]) -> list[Any]:
    """The arguments of a program, as the program takes them once `remove_layout_blocks` has been at work: weights in
    their new layouts, in new NumPy arrays, and everything else as given.

    `mod` is the scheduled program, layout-rewriting blocks included, such as `compile_tir(...).mod`.

    >>> from tscript.testing.workloads import matmul
    >>> lay_out(matmul(8, 8, 8).func, ["a", "b", "c"])
    ['a', 'b', 'c']
    """
    return apply_layouts(layout_functions(mod), arguments)


def apply_layouts(layouts: Mapping[int, PrimFunc], arguments: Sequence[Any]) -> list[Any]:
    """What `lay_out` does, by the functions that `layout_functions` gave."""
    made = list(arguments)
    for k, func in layouts.items():
        given: Any = made[k]
        old: npt.NDArray[Any] = np.ascontiguousarray(given if isinstance(given, np.ndarray) else given.numpy())  # pyright: ignore[reportUnknownArgumentType]
        copy = func.buffer_map[func.params[1]]
        new = np.zeros(constant_shape(copy), old.dtype)
        build(func, target="llvm")(old, new)
        made[k] = new
    return made


def constant_shape(buffer: Buffer) -> tuple[int, ...]:
    """The shape of a buffer, as numbers. Raises TuneError where it is not constant."""
    shape = tuple(n.value for n in buffer.shape if isinstance(n, IntImm))
    if len(shape) < len(buffer.shape):
        raise TuneError(f"the shape of {buffer.name} is not constant, so its layout cannot be rewritten")
    return shape


def _root_of(func: PrimFunc) -> Block | None:
    body = func.body
    return body.block if isinstance(body, BlockRealize) else None


def _children(root: Block) -> list[Stmt]:
    return list(root.body.seq) if isinstance(root.body, SeqStmt) else [root.body]


def _layout_nests(func: PrimFunc) -> list[Stmt]:
    """The statements below the root that only rearrange a weight."""
    root = _root_of(func)
    return [] if root is None else [s for s in _children(root) if _layout_block(s) is not None]


def _layout_block(stmt: Stmt) -> Block | None:
    while isinstance(stmt, For):
        stmt = stmt.body
    is_marked = isinstance(stmt, BlockRealize) and LAYOUT_BLOCK in stmt.block.annotations
    return stmt.block if is_marked and isinstance(stmt, BlockRealize) else None


def _ends(nest: Stmt) -> tuple[Buffer, Buffer]:
    """The weight that a nest copies, and the copy."""
    block = _layout_block(nest)
    assert block is not None
    body = block.body
    if not (isinstance(body, BufferStore) and isinstance(body.value, BufferLoad)):
        raise TuneError(
            f"block {block.name_hint} is annotated {LAYOUT_BLOCK!r} but does more than copy elements; give it one "
            "store of one load"
        )
    return body.value.buffer, body.buffer


def _without(func: PrimFunc) -> PrimFunc:
    nests = _layout_nests(func)
    root = _root_of(func)
    if not nests or root is None:
        return func
    new: dict[Buffer, Buffer] = dict(map(_ends, nests))
    others = [s for s in _children(root) if s not in nests]
    _require_unused(others, new)
    copies = set(new.values())
    body = others[0] if len(others) == 1 else SeqStmt(tuple(others))
    kept = tuple(b for b in root.alloc_buffers if b not in copies)
    realize = func.body
    assert isinstance(realize, BlockRealize)
    parameters: dict[Var, Buffer] = {p: new.get(b, b) for p, b in func.buffer_map.items()}
    missing = set(new) - set(func.buffer_map.values())
    if missing or len(copies) < len(nests):
        raise TuneError(f"{', '.join(sorted(b.name for b in missing)) or 'a copy'} is no parameter to be laid out once")
    body = realize.replace(block=root.replace(body=body, alloc_buffers=kept))
    return func.replace(body=body, buffer_map=parameters)


def _require_unused(stmts: list[Stmt], weights: dict[Buffer, Buffer]) -> None:
    def look(node: object) -> None:
        used = node.buffer if isinstance(node, (BufferLoad, BufferStore)) else None
        if used is not None and used in weights:
            raise TuneError(
                f"{used.name} is copied into another layout by a block annotated {LAYOUT_BLOCK!r}, but is used "
                "elsewhere, too; let every block use the copy"
            )

    for stmt in stmts:
        post_order_visit(stmt, look)
