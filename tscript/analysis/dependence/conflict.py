"""Two accesses of different iterations to the same elements, in words."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.analysis.dependence.accesses import Access
from tscript.analysis.dependence.witness import Witness


@dataclass(frozen=True)
class Conflict:
    """Two accesses, `write` being one that writes, that touch the same element in different iterations, or may do so.

    With a `witness`, they do: it names the iterations. Without one, it could not be shown that they do not; where the
    memory is used through a `pointer`, what is touched is not even known, and the accesses stand for all of it.
    """

    write: Access
    other: Access
    witness: Witness | None
    pointer: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether there is an example."""
        return self.witness is not None

    def explain(self) -> str:
        """What is touched twice, with two iterations where that is known to happen."""
        if self.pointer:
            return f"the pointer `{self.pointer}` is used directly, so what happens to its memory is not known"
        verb = "writes" if self.other.is_write else "reads"
        by = _by(self.write), _by(self.other)
        what = f"{by[0]} writes `{self.write}`"
        if self.other is not self.write:
            what += f" and {by[1]} {verb} `{self.other}`"
        if self.witness is None:
            return f"{what}, which may be the same elements in different iterations"
        return f"{what}: {self.witness.explain(self.write.buffer.name, self.other.is_write)}"

    def __str__(self) -> str:
        return self.explain()


def _by(access: Access) -> str:
    return "a statement outside of blocks" if access.block is None else f"block `{access.block.name_hint}`"
