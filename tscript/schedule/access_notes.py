"""Annotations of blocks that say something about single accesses, which they name by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tscript.ir.expr import IntImm
from tscript.ir.stmt import Block

_ALIGN = "buffer_dim_align"
EXPLICIT = {"read": "explicit_read_region", "write": "explicit_write_region"}
"""The annotations that list which regions were given by hand."""


def explicit_accesses(block: Block, kind: str) -> list[int]:
    """The reads or writes whose regions were given by hand."""
    given: Any = block.annotations.get(EXPLICIT[kind], ())
    return [int(i) for i in (given if isinstance(given, (tuple, list)) else (given,))]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def with_explicit(block: Block, kind: str, index: int) -> Mapping[str, Any]:
    """The annotations of a block of which one more region is given by hand."""
    known = explicit_accesses(block, kind)
    listed = known if index in known else [*known, index]
    return {**block.annotations, EXPLICIT[kind]: [IntImm("int32", i) for i in listed]}


def without_accesses(block: Block, kind: str, gone: Sequence[int]) -> Mapping[str, Any]:
    """The annotations of a block some of whose accesses go: the others are counted anew."""
    count = len(block.reads if kind == "read" else block.writes)
    kept = [i for i in range(count) if i not in gone]
    places = {old: new for new, old in enumerate(kept)}
    found: dict[str, Any] = dict(block.annotations)
    if EXPLICIT[kind] in found:
        listed = [places[i] for i in explicit_accesses(block, kind) if i in places]
        found[EXPLICIT[kind]] = [IntImm("int32", i) for i in listed]
        if not listed:
            del found[EXPLICIT[kind]]
    if kind == "write" and _ALIGN in found:
        entries = [[IntImm("int32", places[int(e[0])]), *e[1:]] for e in found[_ALIGN] if int(e[0]) in places]
        found[_ALIGN] = entries
        if not entries:
            del found[_ALIGN]
    return found
