"""Why a primitive was refused. Cheap to raise; the program is printed only when somebody reads the error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tscript.ir.base import Node
from tscript.ir.function import IRModule
from tscript.ir.stmt import Block, For
from tscript.support import errors


class ScheduleError(errors.ScheduleError):
    """A step of a schedule that is not allowed; the schedule is as it was before.

    `message` has `{0}`, `{1}`, ... where the statements `at` are meant. `primitive` is set by the step that
    raised it. `render_level` is "detail" (reason, hint, and the program with the statements underlined),
    "fast" (one line) or "none".
    """

    def __init__(self, message: str, at: Sequence[Node] = (), hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.at = tuple(at)
        self.hint = hint
        self.primitive = ""
        self.module: IRModule | None = None
        self.render_level = "detail"

    def __str__(self) -> str:
        if self.render_level == "none":
            return "(not rendered)"
        text = self._reason()
        if self.render_level == "fast":
            return text
        if self.hint:
            text += f"\n  try: {self.hint}"
        return text + self._program()

    def _reason(self) -> str:
        names = [_name(node) for node in self.at]
        reason = self.message.format(*names) if names else self.message
        return f"{self.primitive}: {reason}" if self.primitive else reason

    def _program(self) -> str:
        if self.module is None:
            return ""
        notes = {node: f"{_kind(node)}#{i}" for i, node in enumerate(self.at)}
        shown = self.module.script(syntax_sugar=False, obj_to_underline=list(self.at), obj_to_annotate=notes)
        return f"\nThe program:\n{shown}"


def _kind(node: Node) -> str:
    return f"tir.{type(node).__name__}"


def _name(node: Node) -> str:
    if isinstance(node, Block):
        return f"block `{node.name_hint}`"
    if isinstance(node, For):
        return f"loop `{node.loop_var.name}`"
    return f"`{node}`"


def literal(text: str) -> str:
    """Text for a message in which braces stand for statements.

    >>> literal("a {set}")
    'a {{set}}'
    """
    return text.replace("{", "{{").replace("}", "}}")


def refuse(message: str, *at: Node, hint: str = "") -> NoReturn:
    """Raise a ScheduleError; `{0}`, `{1}` in the message stand for the statements `at`."""
    raise ScheduleError(message, at, hint)
