"""The printer: text of expressions without recursion, frames of statements, names.

A handler for an expression class gives a `Form`: how strongly its outermost operator binds, and pieces. A
piece is text or a `Sub`, an expression still to be printed with the weakest binding that needs no
parentheses there. A handler for a statement class appends lines to the innermost frame; where it prints a
body it is a generator, which yields the printing of each statement, so that neither deep expressions nor
long chains of declarations exhaust the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import Var
from tscript.ir.stmt import For, SeqStmt, Stmt
from tscript.printer.metadata import Metadata
from tscript.printer.names import Names
from tscript.printer.options import PathMark, PrintOptions, step
from tscript.printer.scopes import Scopes

LAMBDA: Final = 1
OR: Final = 3
AND: Final = 4
NOT: Final = 5
COMPARISON: Final = 6
SUM: Final = 11
PRODUCT: Final = 12
ATOM: Final = 15

Keys = tuple[str | int, ...]
Sub = tuple[Any, int, Keys]
"""An expression to print, the weakest binding allowed there, and where it stands below its parent."""


@dataclass(slots=True)
class Marked:
    """Text in which places of nodes are known: (node, start, end, whether to underline, note)."""

    text: str
    places: list[tuple[Any, int, int, bool, str | None]]


Text = str | Marked
Piece = str | Marked | Sub
Form = tuple[int, Sequence[Piece]]
Steps = Generator["Steps | None", None, None]
"""Printing under way: yields the printing of what is inside."""


class Line:
    """A line of the program; `comment` lines are never underlined."""

    __slots__ = ("comment", "indent", "note", "text")

    def __init__(self, indent: int, text: Text, comment: bool = False) -> None:
        self.indent = indent
        self.text = text
        self.comment = comment
        self.note: str | None = None


class Frame:
    """A scope being printed: its lines so far, and the names that end with it."""

    __slots__ = ("concise", "defined", "indent", "lines", "opened", "scope")

    def __init__(self, indent: int, scope: int, opened: tuple[int, ...]) -> None:
        self.indent = indent
        self.scope = scope
        self.opened = opened
        self.lines: list[Line] = []
        self.defined: list[tuple[Any, str | None]] = []
        self.concise = False


@dataclass(slots=True)
class Place:
    """The lines that a statement became."""

    node: Any
    first: Line
    last: Line
    underline: bool


ExprHandler = Callable[["Printer", Any], Form]
StmtHandler = Callable[["Printer", Any, "PathMark | None"], "Steps | None"]
EXPRESSIONS: Final[dict[type, ExprHandler]] = {}
STATEMENTS: Final[dict[type, StmtHandler]] = {}
H = TypeVar("H", bound=Callable[..., Any])


def prints(*classes: type) -> Callable[[H], H]:
    """Make a function the handler of expressions (or other values) of these classes."""

    def register(handler: H) -> H:
        for cls in classes:
            EXPRESSIONS[cls] = handler
        return handler

    return register


def prints_stmt(*classes: type) -> Callable[[H], H]:
    """Make a function the handler of statements of these classes."""

    def register(handler: H) -> H:
        for cls in classes:
            STATEMENTS[cls] = handler
        return handler

    return register


class Printer:
    """Prints one program. The handlers are in the modules beside this one."""

    def __init__(self, options: PrintOptions, root: Any) -> None:
        self.options = options
        self.root = root
        self.names = Names((options.ir_prefix, options.tir_prefix, options.relax_prefix, options.module_alias))
        self.variables: dict[Any, str] = {}
        self.functions: dict[Any, str] = {}
        self.loops: dict[Var, For] = {}
        self.metadata = Metadata()
        self.places: list[Place] = []
        self.uses_ir = False
        self.uses_tir = False
        self.underlined: dict[Any, None] = dict.fromkeys(options.obj_to_underline or ())
        self.notes: dict[Any, str] = dict(options.obj_to_annotate or {})
        self.tracked = False
        self._tir = options.tir_prefix + "."
        self._forms: dict[type, ExprHandler] = {}
        self.scopes = Scopes(None)
        self.frames: list[Frame] = []
        self.open: dict[int, Frame] = {}

    # -- names and prefixes ------------------------------------------------------------------------

    def tir(self, name: str) -> str:
        """`name` with the prefix of the language."""
        self.uses_tir = True
        return self._tir + name

    def ir(self, name: str) -> str:
        """`name` with the prefix of modules."""
        self.uses_ir = True
        return f"{self.options.ir_prefix}.{name}"

    def define(self, node: Any, hint: str, frame: Frame) -> str:
        """Give `node` a name until `frame` ends; one it has already stays."""
        known = self.variables.get(node)
        if known is not None:
            return known
        if self.options.show_object_address:
            hint = f"{hint}_{id(node):#x}"
        name = self.names.take(hint)
        self.variables[node] = name
        frame.defined.append((node, name))
        return name

    def define_var(self, var: Var, frame: Frame) -> str:
        """The name of a variable that starts in `frame`."""
        return self.define(var, var.name or "v", frame)

    def define_buffer(self, buffer: Buffer, frame: Frame) -> str:
        """The name of a buffer that starts in `frame`."""
        return self.define(buffer, buffer.name or "buffer", frame)

    def alias(self, node: Any, text: str, frame: Frame) -> None:
        """Let `node` print as `text`, which is no name of its own (`A.data`), until `frame` ends."""
        self.variables[node] = text
        frame.defined.append((node, None))

    # -- frames --------------------------------------------------------------------------------------

    def begin(self, root: Any, indent: int) -> Frame:
        """Start on a program of its own scopes: a fragment or a function."""
        self.scopes = Scopes(root)
        self.open = {}
        frame = Frame(indent, 0, (0,))
        frame.concise = True
        self.push(frame)
        return frame

    def frame(self, *nodes: Any, deeper: bool = True) -> Frame:
        """A new frame for the scope that `nodes`, each directly inside the one before, open."""
        outer = self.frames[-1]
        scope = outer.scope
        opened: list[int] = []
        for node in nodes:
            inner = self.scopes.child(scope, node)
            if inner != scope:
                opened.append(inner)
            scope = inner
        return Frame(outer.indent + 1 if deeper else outer.indent, scope, tuple(opened))

    def push(self, frame: Frame) -> None:
        """Make `frame` the innermost one."""
        self.frames.append(frame)
        for scope in frame.opened:
            self.open[scope] = frame

    def pop(self) -> Frame:
        """End the innermost frame: its names are free again."""
        frame = self.frames.pop()
        for scope in frame.opened:
            self.open.pop(scope, None)
        for node, name in frame.defined:
            del self.variables[node]
            if name is not None:
                self.names.release(name)
        return frame

    def home(self, node: Any) -> Frame:
        """The innermost open frame that contains all uses of a free variable or buffer."""
        scope = self.scopes.home.get(node, 0)
        while scope not in self.open:
            scope = self.scopes.parent[scope]
            if scope < 0:
                return self.frames[0]
        return self.open[scope]

    # -- text ----------------------------------------------------------------------------------------

    def form(self, node: Any) -> Form:
        """How `node` prints."""
        cls = cast("type[Any]", type(node))
        handler = self._forms.get(cls)
        if handler is None:
            handler = self._forms[cls] = _find_handler(cls)
        return handler(self, node)

    def text(self, pieces: Sequence[Piece], mark: PathMark | None = None) -> Text:
        """The pieces, with every expression printed."""
        if self.tracked:
            return self._tracked_text(pieces, mark)
        out: list[str] = []
        stack: list[Any] = list(reversed(pieces))
        forms = self._forms
        while stack:
            piece = stack.pop()
            if type(piece) is str:
                out.append(piece)
                continue
            node, need, _ = piece
            cls = cast("type[Any]", type(node))
            handler = forms.get(cls)
            binding, parts = handler(self, node) if handler is not None else self.form(node)
            if binding < need:
                out.append("(")
                stack.append(")")
            stack.extend(reversed(parts))
        return "".join(out)

    def _tracked_text(self, pieces: Sequence[Piece], mark: PathMark | None) -> Marked:
        result = Marked("", [])
        out: list[str] = []
        at = 0
        # An integer ends the node whose place has that number.
        stack: list[tuple[Piece | int, PathMark | None]] = [(p, mark) for p in reversed(pieces)]
        while stack:
            piece, here = stack.pop()
            if isinstance(piece, str):
                out.append(piece)
                at += len(piece)
            elif isinstance(piece, Marked):
                out.append(piece.text)
                result.places.extend((n, s + at, e + at, u, note) for n, s, e, u, note in piece.places)
                at += len(piece.text)
            elif isinstance(piece, int):
                node, start, _, underline, note = result.places[piece]
                result.places[piece] = node, start, at, underline, note
            else:
                node, need, keys = piece
                here = step(here, *keys)
                binding, parts = self.form(node)
                close = binding < need
                if close:
                    out.append("(")
                    at += 1
                    stack.append((")", None))
                result.places.append((node, at, at, self.is_underlined(node, here), self.note(node, here)))
                stack.append((len(result.places) - 1, None))
                stack.extend((p, here) for p in reversed(parts))
        result.text = "".join(out)
        return result

    def named(self, node: Any, name: str, mark: PathMark | None = None) -> Text:
        """The name of `node` where it is defined."""
        if not self.tracked:
            return name
        return Marked(name, [(node, 0, len(name), self.is_underlined(node, mark), self.note(node, mark))])

    def is_underlined(self, node: Any, mark: PathMark | None) -> bool:
        """Whether `node`, standing at `mark`, is to be underlined."""
        return (mark is not None and mark.underline) or (isinstance(node, Node) and node in self.underlined)

    def note(self, node: Any, mark: PathMark | None) -> str | None:
        """The remark on `node`, standing at `mark`."""
        if mark is not None and mark.note is not None:
            return mark.note
        return self.notes.get(node) if isinstance(node, Node) and self.notes else None

    # -- statements ----------------------------------------------------------------------------------

    def line(self, pieces: Sequence[Piece], mark: PathMark | None = None, frame: Frame | None = None) -> Line:
        """A line at the indentation of `frame`, or of the innermost one."""
        return Line((frame or self.frames[-1]).indent, self.text(pieces, mark))

    def emit(self, node: Any, mark: PathMark | None, lines: list[Line], compound: bool = False) -> None:
        """Append the lines that `node` became to the innermost frame."""
        target = self.frames[-1].lines
        if self.tracked:
            note = self.note(node, mark)
            if note is not None and compound:
                target.extend(Line(lines[0].indent, f"# {part}", comment=True) for part in note.split("\n"))
            elif note is not None:
                lines[0].note = " ".join(note.split("\n"))
            self.places.append(Place(node, lines[0], lines[-1], self.is_underlined(node, mark)))
        target.extend(lines)

    def also_place(self, node: Any, mark: PathMark | None, lines: list[Line]) -> None:
        """Note that `node` too is printed by `lines`."""
        if self.tracked:
            self.places.append(Place(node, lines[0], lines[-1], self.is_underlined(node, mark)))

    def put_note_above(self, note: str, line: Line) -> None:
        """Put a remark above a line of the innermost frame."""
        target = self.frames[-1].lines
        at = next(i for i in range(len(target) - 1, -1, -1) if target[i] is line)
        target[at:at] = [Line(line.indent, f"# {part}", comment=True) for part in note.split("\n")]

    def take_concise(self, node: Any, mark: PathMark | None) -> bool:
        """Whether `node` may print without indenting its body: it is last in its frame, and without a remark."""
        return self.frames[-1].concise and self.note(node, mark) is None

    def statement(self, node: Stmt, mark: PathMark | None) -> Steps | None:
        """Start to print `node` into the innermost frame."""
        return _find_stmt_handler(type(node))(self, node, mark)

    def body(self, node: Stmt, mark: PathMark | None) -> Steps:
        """Print the statement or sequence that a frame consists of."""
        frame = self.frames[-1]
        if isinstance(node, SeqStmt):
            last = len(node.seq) - 1
            for i, s in enumerate(node.seq):
                frame.concise = i == last
                steps = self.statement(s, step(mark, "seq", i))
                if steps is not None:
                    yield steps
        else:
            frame.concise = True
            steps = self.statement(node, mark)
            if steps is not None:
                yield steps

    def run(self, steps: Steps | None) -> None:
        """Carry printing through to its end."""
        stack = [] if steps is None else [steps]
        while stack:
            inner = next(stack[-1], _DONE)
            if inner is _DONE:
                stack.pop()
            elif inner is not None:
                stack.append(inner)  # pyright: ignore[reportArgumentType]


_DONE: Final[Any] = object()


def _lookup(table: Mapping[type, H], cls: type) -> Iterator[H]:
    return (table[base] for base in cls.__mro__ if base in table)


def _find_handler(cls: type) -> ExprHandler:
    return next(_lookup(EXPRESSIONS, cls), _print_metadata)


def _find_stmt_handler(cls: type) -> StmtHandler:
    handler = STATEMENTS.get(cls) or next(_lookup(STATEMENTS, cls), None)
    if handler is None:
        raise TypeError(f"statements of the class {cls.__name__} have no printed form")
    return handler


def _print_metadata(p: Printer, value: Any) -> Form:
    return ATOM, (p.metadata.add(value),)
