"""The stack of open constructs while a program is being built, and the statements collected in each.

A frame is a construct that holds statements: a function, a block, a loop, a let. Opening pushes it;
closing builds its statement and hands it to the frame below. Frames opened for the rest of the
surrounding scope (`x = T.allocate(...)`) are closed along with the frame below them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from tscript.ir.buffer import Buffer
from tscript.ir.stmt import Stmt, seq
from tscript.parser.diagnostics import fail
from tscript.support.span import Span

F = TypeVar("F", bound="Frame")


class Frame:
    """A construct that can be opened, as `with frame:`, by `x = frame`, or as a bare statement.

    Subclasses define `enter`, which returns what `as` binds, and `build`, which makes the statement from
    the body (None when the construct leaves no statement of its own).
    """

    __slots__ = ("builder", "span", "stmts")

    what: ClassVar[str] = "construct"

    def __init__(self) -> None:
        self.stmts: list[Stmt] = []
        self.span: Span | None = None
        self.builder: Builder | None = None

    def open(self, builder: Builder) -> Any:
        """Push this frame and return what it binds. A frame can be opened once."""
        if self.builder is not None:
            fail(f"this {self.what} was opened before", None, f"make a new {self.what} for each use")
        self.builder = builder
        self.span = builder.span
        value = self.enter(builder)
        builder.frames.append(self)
        return value

    def enter(self, builder: Builder) -> Any:
        """Check the place, and return what `as` binds. Runs before the frame is pushed."""
        return None

    def build(self, builder: Builder, body: Stmt) -> Stmt | None:
        """The statement this frame stands for. Runs after the frame was popped."""
        raise NotImplementedError

    def declared(self) -> Iterable[Buffer]:
        """Buffers that may be used inside."""
        return ()

    def __enter__(self) -> Any:
        return self.open(current())

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None and self.builder is not None:
            self.builder.close(self)


class Builder:
    """Open frames, innermost last, and the position of the statement that is being read."""

    __slots__ = ("block_names", "frames", "macro_depth", "named_strides", "reader", "span")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.span: Span | None = None
        # Who reads the source, for macros that see the names at the place of use. None outside the parser.
        self.reader: Any = None
        self.macro_depth = 0
        self.block_names: dict[str, None] = {}
        # Stride variables given by a text, which take the name of their buffer once it has one.
        self.named_strides: dict[Any, None] = {}

    def add(self, stmt: Stmt) -> None:
        """Append a statement to the innermost frame."""
        self.frames[-1].stmts.append(stmt)

    def block_name(self, wanted: str) -> str:
        """The name of a block that is opened now. Where a macro writes a block again, the next one is numbered."""
        name = wanted
        number = 0
        while wanted and self.macro_depth and name in self.block_names:
            number += 1
            name = f"{wanted}_{number}"
        self.block_names[name] = None
        return name

    def close(self, frame: Frame) -> None:
        """Close `frame` and what was opened inside it for the rest of its scope."""
        frames = self.frames
        while True:
            top = frames.pop()
            stmt = top.build(self, seq(*top.stmts))
            if stmt is not None and frames:
                frames[-1].stmts.append(stmt)
            if top is frame:
                return

    def find(self, kind: type[F]) -> F | None:
        """The innermost frame of a kind."""
        for frame in reversed(self.frames):
            if isinstance(frame, kind):
                return frame
        return None

    def innermost(self, kind: type[F]) -> F | None:
        """The innermost frame, if it is of this kind."""
        top = self.frames[-1] if self.frames else None
        return top if isinstance(top, kind) else None


_CURRENT: ContextVar[Builder | None] = ContextVar("tscript_builder", default=None)


def current() -> Builder:
    """The builder of the function that is being read; ScriptError outside one."""
    builder = _CURRENT.get()
    if builder is None:
        fail(
            "this is a statement of a kernel, but no kernel is being read here",
            None,
            "use it in a function decorated with @T.prim_func",
        )
    return builder


def find_current() -> Builder | None:
    """The builder of the function that is being read, if there is one."""
    return _CURRENT.get()


class building:
    """Make `builder` the current one for a while."""

    __slots__ = ("_builder", "_token")

    def __init__(self, builder: Builder | None) -> None:
        self._builder = builder

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._builder)

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._token)


def rename(node: Any, name: str) -> None:
    """Give a variable or buffer made without a name the name it is bound to.

    Sound because such a node has identity and nothing depends on its name yet.
    """
    object.__setattr__(node, "name", name)
