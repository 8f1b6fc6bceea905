"""Instructions: what a trace is made of. One kind for each primitive, described by its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

_NEWER_NAMES = {"GetSBlock": "GetBlock"}
"""What traces of newer tools call a kind, and its name here."""


class Role(Enum):
    """Where an argument stands in an instruction."""

    INPUT = "a handle, or a value that handles may stand in"
    INPUTS = "several of these, each an input of its own"
    INPUT_LIST = "a list that is one input"
    ATTR = "a constant"


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument of a primitive, in the order of the printed call.

    `keyword`: printed as `name=value`. `is_list`: several inputs printed as one list. `if_empty`: whether an
    empty list is printed. `is_flag`: a bool, kept as 1 or 0 in JSON. `is_access`: `("read", 0)` or `("write", 0)`,
    kept as two constants, the index and 0 or 1. `is_saved`: a constant that JSON keeps as the text of a saved program.
    `is_ranges`: an index map to the two ends of each dimension, printed as pairs.
    """

    name: str
    role: Role = Role.ATTR
    keyword: bool = True
    is_list: bool = False
    if_empty: bool = True
    is_flag: bool = False
    is_access: bool = False
    is_saved: bool = False
    is_ranges: bool = False


def block(name: str = "block", keyword: bool = True) -> Arg:
    """An argument that is a block (or a loop)."""
    return Arg(name, Role.INPUT, keyword)


def loop(name: str = "loop", keyword: bool = True) -> Arg:
    """An argument that is a loop."""
    return Arg(name, Role.INPUT, keyword)


def attr(name: str) -> Arg:
    """An argument that is a constant."""
    return Arg(name)


def flag(name: str) -> Arg:
    """An argument that is a bool."""
    return Arg(name, is_flag=True)


def access(name: str) -> Arg:
    """An argument that says which access of a block is meant."""
    return Arg(name, is_access=True)


class Outputs(Enum):
    """What an instruction gives."""

    NONE = 0
    ONE = 1
    LIST = 2


@dataclass(frozen=True, eq=False)
class InstructionKind:
    """A kind of instruction: its name in JSON, the method of Schedule it stands for, its arguments.

    `is_pure`: it changes nothing, so it may be dropped when nothing uses what it gives. `has_decision`: it
    samples. `is_postproc`: it marks where post-processing begins.
    """

    name: str
    method: str
    args: tuple[Arg, ...]
    outputs: Outputs = Outputs.NONE
    is_pure: bool = False
    has_decision: bool = False
    is_postproc: bool = False
    registry: ClassVar[dict[str, InstructionKind]] = {}

    def __post_init__(self) -> None:
        InstructionKind.registry[self.name] = self

    @staticmethod
    def get(name: str) -> InstructionKind:
        """The kind called `name`, here or in traces of newer tools; ValueError if there is none."""
        found = InstructionKind.registry.get(_NEWER_NAMES.get(name, name))
        if found is None:
            raise ValueError(f"there is no instruction kind {name!r}; known are {', '.join(InstructionKind.registry)}")
        return found

    @property
    def input_args(self) -> tuple[Arg, ...]:
        """Arguments that are inputs, in order."""
        return tuple(a for a in self.args if a.role is not Role.ATTR)

    @property
    def attr_args(self) -> tuple[Arg, ...]:
        """Arguments that are constants, in order."""
        return tuple(a for a in self.args if a.role is Role.ATTR)

    def pack(self, values: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """Inputs and attributes of an instruction with these arguments."""
        inputs: list[Any] = []
        for a in self.input_args:
            if a.role is Role.INPUTS:
                inputs.extend(values[a.name])
            else:
                inputs.append(values[a.name])
        attrs: list[Any] = []
        for a in self.attr_args:
            if a.is_access:
                kind, index = values[a.name]
                attrs += [index, _ACCESSES.index(kind)]
            else:
                attrs.append(values[a.name])
        return inputs, attrs

    def unpack(self, inputs: Sequence[Any], attrs: Sequence[Any]) -> dict[str, Any]:
        """The arguments, by name, of an instruction with these inputs and attributes. ValueError if they do not fit."""
        values: dict[str, Any] = {}
        rest = list(inputs)
        for i, a in enumerate(self.input_args):
            if a.role is Role.INPUTS:
                # At most one argument takes several inputs; those after it take one each.
                after = len(self.input_args) - i - 1
                count = len(rest) - after
                values[a.name], rest = rest[:count], rest[count:]
            elif rest:
                values[a.name] = rest.pop(0)
            elif a.role is Role.INPUT_LIST and not a.if_empty:
                values[a.name] = []
            else:
                raise ValueError(f"{self.name} lacks its input `{a.name}`")
        count = sum(2 if a.is_access else 1 for a in self.attr_args)
        if rest or len(attrs) != count:
            raise ValueError(
                f"{self.name} takes {len(self.input_args)} inputs and {count} attributes, "
                f"not {len(inputs)} and {len(attrs)}"
            )
        given = iter(attrs)
        for a in self.attr_args:
            v = next(given)
            values[a.name] = _access(self.name, v, next(given)) if a.is_access else bool(v) if a.is_flag else v
        return values


_ACCESSES = ("read", "write")


def _access(kind: str, index: Any, which: Any) -> tuple[str, Any]:
    """The access that two constants stand for. ValueError where they stand for none."""
    if which not in (0, 1):
        raise ValueError(f"an access of {kind} is kept as its index and 0 (read) or 1 (write), not {which!r}")
    return _ACCESSES[which], index


@dataclass(eq=False)
class Instruction:
    """One recorded step: its kind, the handles and values it takes, constants, and the handles it gives."""

    kind: InstructionKind
    inputs: list[Any]
    attrs: list[Any] = field(default_factory=list[Any])
    outputs: list[Any] = field(default_factory=list[Any])

    def input_handles(self) -> Iterator[Any]:
        """Everything among the inputs, those inside lists included."""
        stack = list(reversed(self.inputs))
        while stack:
            v = stack.pop()
            if isinstance(v, (list, tuple)):
                stack.extend(reversed(v))  # pyright: ignore[reportUnknownArgumentType]
            else:
                yield v
