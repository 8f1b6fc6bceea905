"""Iterators, their splits and sums: the terms in which affine maps of iterators are described.

A mark is an iterator with values from 0 to its extent: an input, or a sum that counts through all of them.
A split `((source // lower_factor) % extent) * scale` is a digit of a mark. A sum of splits and a base is what
an index of an affine map is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from tscript.ir.expr import IntImm, PrimExpr, Var


class IterMapLevel(IntEnum):
    """What a map of iterators must be: one to one, onto, or just of the right form."""

    BIJECTIVE = 0
    SURJECTIVE = 1
    NOCHECK = 3

    @staticmethod
    def of(level: IterMapLevel | int | str) -> IterMapLevel:
        """The level called so. Raises ValueError for other names."""
        if not isinstance(level, str):
            return IterMapLevel(level)
        found = _LEVELS.get(level.lower())
        if found is None:
            raise ValueError(f"unknown level {level!r}: choose one of {', '.join(_LEVELS)}")
        return found


_LEVELS: Mapping[str, IterMapLevel] = {
    "bijective": IterMapLevel.BIJECTIVE,
    "surjective": IterMapLevel.SURJECTIVE,
    "nocheck": IterMapLevel.NOCHECK,
}


@dataclass(frozen=True, eq=False)
class IterMark:
    """An iterator from 0 to `extent`, the end excluded: an index expression of one input, or a sum."""

    source: PrimExpr | IterSumExpr
    extent: PrimExpr


@dataclass(frozen=True, eq=False)
class IterSplitExpr:
    """`((source // lower_factor) % extent) * scale`."""

    source: IterMark
    lower_factor: PrimExpr
    extent: PrimExpr
    scale: PrimExpr

    @staticmethod
    def of(mark: IterMark) -> IterSplitExpr:
        """The whole of a mark."""
        one = IntImm(mark.extent.dtype, 1)
        return IterSplitExpr(mark, one, mark.extent, one)

    @property
    def key(self) -> tuple[IterMark, PrimExpr, PrimExpr]:
        """What it counts, whatever its scale."""
        return self.source, self.lower_factor, self.extent


@dataclass(frozen=True, eq=False)
class IterSumExpr:
    """The sum of splits and a base that holds no input iterator."""

    args: tuple[IterSplitExpr, ...]
    base: PrimExpr


IterMapExpr = IterSplitExpr | IterSumExpr


class IterMapResult(NamedTuple):
    """`indices` as sums, empty where detection failed, `errors` saying why.

    `padding_predicate` holds, over the padded domain, where no input leads to: it is false where nothing was padded.
    """

    indices: list[IterSumExpr]
    errors: list[str]
    padding_predicate: PrimExpr
    input_marks: tuple[IterMark, ...] = ()


def variables_of(mark: IterMark) -> dict[Var, None]:
    """The variable that an input mark stands for, or those of the inputs in a sum."""
    found: dict[Var, None] = {}
    stack: list[PrimExpr | IterSumExpr] = [mark.source]
    while stack:
        source = stack.pop()
        if isinstance(source, IterSumExpr):
            stack.extend(a.source.source for a in source.args)
        elif isinstance(source, Var):
            found[source] = None
        else:
            # An input that does not start at zero is `variable - start`.
            first: object = getattr(source, "a", None)
            if isinstance(first, Var):
                found[first] = None
    return found
