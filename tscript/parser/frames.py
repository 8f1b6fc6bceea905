"""The decorators of `T`, and everything in it that makes statements, under the names users write."""

from __future__ import annotations

from tscript.parser.blocks import arg, axis, block, block_attr, func_attr, init, reads, where, writes
from tscript.parser.buffers import (
    alloc_buffer,
    allocate,
    allocate_const,
    buffer_decl,
    decl_buffer,
    match_buffer,
    pointer,
    variable,
)
from tscript.parser.buffers import buffer_maker as Buffer
from tscript.parser.control import assert_ as Assert
from tscript.parser.control import (
    attr,
    buffer_store,
    env_thread,
    evaluate,
    launch_thread,
    let,
    meta_var,
    prefetch,
    realize,
)
from tscript.parser.control import else_ as Else
from tscript.parser.control import if_ as If
from tscript.parser.control import let_stmt as LetStmt
from tscript.parser.control import then as Then
from tscript.parser.control import while_ as While
from tscript.parser.function import prim_func
from tscript.parser.loops import grid, parallel, serial, thread_binding, unroll, vectorized
from tscript.parser.macros import macro

sblock = block
sblock_attr = block_attr
sblock_alloc_buffer = alloc_buffer
Ptr = pointer
buffer_var = pointer
var = variable

__all__ = [
    "Assert", "Buffer", "Else", "If", "LetStmt", "Ptr", "Then", "While", "alloc_buffer", "allocate",
    "allocate_const", "arg", "attr", "axis", "block", "block_attr", "buffer_decl", "buffer_store", "buffer_var",
    "decl_buffer", "env_thread", "evaluate", "func_attr", "grid", "init", "launch_thread", "let", "macro",
    "match_buffer", "meta_var", "parallel", "prefetch", "prim_func", "reads", "realize", "sblock",
    "sblock_alloc_buffer", "sblock_attr", "serial", "thread_binding", "unroll", "var", "vectorized", "where", "writes",
]  # fmt: skip
