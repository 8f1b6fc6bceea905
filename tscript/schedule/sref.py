"""Stable references to the loops and blocks of a program that is being rewritten."""

from __future__ import annotations

from tscript.ir.stmt import Block, For


class StmtSRef:
    """A handle on a loop or block that survives rewrites around and inside it.

    `stmt` is its present form, None once it is gone; `parent` the nearest enclosing loop or block;
    `seq_index` its place in the sequence directly around it, or -1; `death` says how it went.
    """

    __slots__ = ("death", "parent", "seq_index", "stmt")

    def __init__(self, stmt: For | Block, parent: StmtSRef | None, seq_index: int) -> None:
        self.stmt: For | Block | None = stmt
        self.parent = parent
        self.seq_index = seq_index
        self.death = ""

    @property
    def alive(self) -> bool:
        """Whether it is still part of the program."""
        return self.stmt is not None

    @property
    def block(self) -> Block:
        """Its present form; it must be a block."""
        assert isinstance(self.stmt, Block)
        return self.stmt

    @property
    def loop(self) -> For:
        """Its present form; it must be a loop."""
        assert isinstance(self.stmt, For)
        return self.stmt

    def __repr__(self) -> str:
        if isinstance(self.stmt, Block):
            return f"StmtSRef(block {self.stmt.name_hint})"
        if isinstance(self.stmt, For):
            return f"StmtSRef(loop {self.stmt.loop_var.name})"
        return f"StmtSRef(gone: {self.death})"


class Mark(StmtSRef):
    """A place that is no statement: where a sampled compute location means "inline" or "leave at the root"."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.stmt = None
        self.parent = None
        self.seq_index = -1
        self.death = ""

    def __repr__(self) -> str:
        return f"StmtSRef({self.name} mark)"


INLINE_MARK = Mark("inline")
ROOT_MARK = Mark("root")
