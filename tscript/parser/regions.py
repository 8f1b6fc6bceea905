"""Reads and writes of a block that does not declare them."""

from __future__ import annotations

from collections.abc import Mapping

from tscript.analysis.access_regions import detect_regions
from tscript.ir.buffer import Buffer
from tscript.ir.expr import Var
from tscript.ir.stmt import Block
from tscript.parser.diagnostics import fail
from tscript.support.span import Span


def detect_missing(
    block: Block, missing_reads: bool, missing_writes: bool, buffer_of: Mapping[Var, Buffer], span: Span | None
) -> Block:
    """`block` with the regions filled in that were not declared. ScriptError where they cannot be told."""
    try:
        reads, writes = detect_regions(block, buffer_of)
    except ValueError as e:
        fail(
            f"the regions of block {block.name_hint!r} cannot be found: {e}",
            span,
            "declare them with T.reads(...) and T.writes(...)",
        )
    return block.replace(
        reads=reads if missing_reads else block.reads, writes=writes if missing_writes else block.writes
    )
