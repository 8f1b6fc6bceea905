"""Source text of a function or class, wherever it was typed, and the syntax tree with positions in that text."""

from __future__ import annotations
import __future__

import ast
import hashlib
import io
import itertools
import linecache
import os
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from tscript.support.errors import ScriptError
from tscript.support.recursion import on_large_stack
from tscript.support.span import Span

Definition = ast.FunctionDef | ast.ClassDef

_NO_SOURCE_HINT = (
    "give the text yourself: tscript.script.from_source(text), where text holds the decorated function or class"
)


class Text:
    """Lines of Python, and where they stand.

    `file` is the name the user knows (it has an entry in `linecache`), `line_shift` is added to the line
    numbers of the tree, `lines` are the lines the tree was made from.
    """

    __slots__ = ("ascii", "file", "line_shift", "lines")

    def __init__(self, file: str, lines: list[str], line_shift: int) -> None:
        self.file = file
        self.lines = lines
        self.line_shift = line_shift
        self.ascii = all(line.isascii() for line in lines)

    def span(self, node: Any, end: Any = None) -> Span:
        """The position of `node` (to the end of `end`, when given)."""
        last = node if end is None else end
        line, column, end_line, end_column = node.lineno, node.col_offset, last.end_lineno, last.end_col_offset
        if not self.ascii:
            column, end_column = self._characters(line, column), self._characters(end_line, end_column)
        shift = self.line_shift
        return Span(self.file, line + shift, column + 1, end_line + shift, end_column + 1)

    def _characters(self, line: int, offset: int) -> int:
        # The tree counts bytes of UTF-8; people count characters.
        return len(self.lines[line - 1].encode()[:offset].decode(errors="replace"))

    def name_span(self, node: Definition | ast.AsyncFunctionDef) -> Span:
        """The position of the words `def name` or `class name`."""
        word = _WORDS[type(node)]
        line, column = node.lineno, node.col_offset
        if not self.ascii:
            column = self._characters(line, column)
        line += self.line_shift
        return Span(self.file, line, column + 1, line, column + 1 + len(word) + len(node.name))


_WORDS: Final = {ast.FunctionDef: "def ", ast.ClassDef: "class ", ast.AsyncFunctionDef: "async def "}


class Source(Text):
    """The syntax tree `node` of one function or class, where it stands, and the assignments before it."""

    __slots__ = ("assignments", "node")

    def __init__(
        self,
        file: str,
        node: Definition,
        lines: list[str],
        line_shift: int,
        assignments: tuple[tuple[str, ast.expr], ...] = (),
    ) -> None:
        super().__init__(file, lines, line_shift)
        self.node = node
        self.assignments = assignments


def _parsed(text: str, file: str) -> ast.Module:
    try:
        return ast.parse(text, file)
    except RecursionError:
        return on_large_stack(lambda: ast.parse(text, file))


def source_of_text(text: str, prefix: str = "tscript") -> Source:
    """The single function or class in `text`, which may be indented as a whole, and `name = value` lines before it.

    The text gets a file name of its own, so that messages and tracebacks can show its lines.
    Raises ScriptError for text that is no Python or holds something else.
    """
    text = _without_mark(text)
    file = register_text(text, prefix)
    lines = lines_of(text)
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    indented = first[:1].isspace()
    try:
        tree = _parsed("if 1:\n" + text if indented else text, file)
    except SyntaxError as e:
        raise _syntax_error(file, e, 1 if indented else 0) from None
    except UnicodeEncodeError as e:
        raise _unencodable(file, text, e.object, e.start) from None
    except (RecursionError, MemoryError):
        raise ScriptError("the text is nested too deeply to be read", None, "split its longest expression") from None
    body = tree.body
    if indented and isinstance(body[0], ast.If):
        body = body[0].body
    shift = -1 if indented else 0
    parsed = Text(file, ["if 1:\n", *lines] if indented else lines, shift)
    found: list[Definition] = []
    assignments: list[tuple[str, ast.expr]] = []
    for stmt in body:
        if isinstance(stmt, (ast.FunctionDef, ast.ClassDef)):
            found.append(stmt)
        elif isinstance(stmt, ast.Assign) and not found and isinstance(stmt.targets[0], ast.Name):
            assignments.append((stmt.targets[0].id, stmt.value))
        elif isinstance(stmt, ast.AsyncFunctionDef):
            raise ScriptError("a kernel is written with `def`, not `async def`", parsed.name_span(stmt))
        elif not isinstance(stmt, (ast.Import, ast.ImportFrom)) and not is_docstring(stmt):
            raise ScriptError(
                "the text must hold one function or class, after `name = value` lines, and nothing else",
                parsed.span(stmt),
                "pass values the kernel needs by extra_vars={...}",
            )
    if not found:
        raise ScriptError(
            "the text holds no function or class",
            None,
            "give the whole definition, with its decorator",
        )
    if len(found) > 1:
        raise ScriptError(
            f"the text must hold one function or class, not {len(found)}",
            parsed.name_span(found[1]),
            "put functions in a class with @I.ir_module",
        )
    return Source(file, found[0], parsed.lines, shift, tuple(assignments))


def lines_of(text: str) -> list[str]:
    """The lines of a text as Python counts them, each with its end.

    Unlike `str.splitlines`, which also ends lines at form feeds and at separators of other alphabets.
    """
    return io.StringIO(text, newline=None).readlines()


def _without_mark(text: str) -> str:
    # The byte order mark that some editors write at the beginning of a file.
    return text.removeprefix("\ufeff")


def _unencodable(file: str, text: str, parsed: str, start: int) -> ScriptError:
    """The error for half of a surrogate pair, which is no character."""
    at = max(0, start - (len(parsed) - len(text)))
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return ScriptError(
        f"this is no Python: {text[at]!r} is half of a character", Span(file, line, column, line, column + 1)
    )


def is_docstring(stmt: ast.stmt) -> bool:
    """Whether a statement is nothing but a text."""
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and isinstance(stmt.value.value, str)


def register_text(text: str, prefix: str) -> str:
    """Give `text` a file name that `linecache`, and so every traceback, can show."""
    name = f"<{prefix}-{hashlib.sha1(text.encode(errors='replace')).hexdigest()[:10]}>"
    # No modification time: linecache then never looks for a file of that name.
    linecache.cache[name] = (len(text), None, lines_of(text), name)
    _texts.pop(name, None)
    _texts[name] = None
    while len(_texts) > _MOST_TEXTS:
        # A process that reads programs for days must not keep the text of each; old ones lose their caret lines.
        oldest = next(iter(_texts), name)
        _texts.pop(oldest, None)
        linecache.cache.pop(oldest, None)
    return name


_MOST_TEXTS: Final = 4096
_texts: dict[str, None] = {}


def _syntax_error(file: str, e: SyntaxError, shift: int) -> ScriptError:
    line = max(1, (e.lineno or 1) - shift)
    column = e.offset or 1
    end_line = max(line, (e.end_lineno or 0) - shift)
    end_column = e.end_offset or 0
    if end_line == line and end_column <= column:
        end_column = column + 1
    return ScriptError(f"this is no Python: {e.msg}", Span(file, line, column, end_line, end_column))


def source_of(obj: FunctionType | type, frame: FrameType | None) -> Source:
    """The source of a function or class that is being decorated in `frame`.

    Works for files, notebook cells, doctests and interactive input that Python keeps, and for text given
    to `exec` or `python -c` as long as the text can be found in a caller. Raises ScriptError otherwise.
    """
    code = obj.__code__ if isinstance(obj, FunctionType) else _class_code(obj, frame)
    name = obj.__name__
    if code is not None:
        file, start = code.co_filename, code.co_firstlineno
        lines = _lines_of(file, _globals_of(obj))
        if not lines:
            file, lines = _exec_text(frame, code)
        if lines:
            found = _definition_at(file, lines, start, name)
            if found is not None:
                return found
            raise ScriptError(
                f"{file} has no definition of `{name}` at line {start}: the text changed after Python read it",
                None,
                "run the file again, or give the text to tscript.script.from_source",
            )
    elif isinstance(obj, type):
        found = _class_by_search(obj)
        if found is not None:
            return found
    where = f" ({code.co_filename})" if code is not None else ""
    raise ScriptError(f"the source text of `{name}` is not available{where}", None, _NO_SOURCE_HINT)


def _globals_of(obj: FunctionType | type) -> dict[str, Any] | None:
    if isinstance(obj, FunctionType):
        return obj.__globals__
    module = sys.modules.get(obj.__module__)
    return None if module is None else vars(module)


def _lines_of(file: str, module_globals: dict[str, Any] | None) -> list[str]:
    if os.path.exists(file):
        linecache.checkcache(file)
    return linecache.getlines(file, module_globals)


def constant_codes(code: CodeType) -> Iterator[CodeType]:
    """Code objects of the functions and classes directly inside `code`."""
    return (c for c in code.co_consts if isinstance(c, CodeType))


def methods_of(cls: type) -> list[FunctionType]:
    """Functions in a class body, in order, static ones included."""
    found: list[FunctionType] = []
    for value in vars(cls).values():
        function = getattr(value, "__func__", value)
        if isinstance(function, FunctionType):
            found.append(function)
    return found


def _class_code(cls: type, frame: FrameType | None) -> CodeType | None:
    if frame is None:
        return None
    methods = {m.__code__ for m in methods_of(cls)}
    candidates = [c for c in constant_codes(frame.f_code) if c.co_name == cls.__name__]
    for c in reversed(candidates):
        if methods & set(constant_codes(c)):
            return c
    if methods or not candidates:
        return None
    # Without methods the line being run tells which of several classes of that name it is.
    before = [c for c in candidates if c.co_firstlineno <= frame.f_lineno]
    return before[-1] if before else candidates[-1]


def _class_by_search(cls: type) -> Source | None:
    methods = methods_of(cls)
    if methods:
        file, inside = methods[0].__code__.co_filename, methods[0].__code__.co_firstlineno
    else:
        file, inside = getattr(sys.modules.get(cls.__module__), "__file__", None) or "", 0
    lines = _lines_of(file, _globals_of(cls))
    if not lines:
        return None
    try:
        tree = _parsed("".join(lines), file)
    except SyntaxError:
        return None
    found: Source | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            if not inside or node.lineno <= inside <= (node.end_lineno or 0):
                found = Source(file, node, lines, 0)
    return found


def _definition_at(file: str, lines: list[str], start: int, name: str) -> Source | None:
    """The definition whose first decorator (or `def`) stands on line `start`.

    The end is found by indentation: the first line indented no deeper that makes the text before it
    complete. Text inside brackets or long strings may be indented less; it does not parse, so it is taken in.
    """
    if start > len(lines):
        return None
    first = lines[start - 1]
    indent = len(first) - len(first.lstrip())
    header = ["if 1:\n"] if indent else []
    end = start
    while end < len(lines):
        end = _next_outer_line(lines, end, indent)
        chosen = header + lines[start - 1 : end]
        try:
            body = _parsed("".join(chosen), file).body
        except SyntaxError:
            end += 1
            continue
        if indent and isinstance(body[0], ast.If):
            body = body[0].body
        node = body[0]
        if len(body) == 1 and isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return Source(file, node, chosen, start - 1 - len(header))
        end += 1
    return _single_line(file, lines, start, name, header)


def _single_line(file: str, lines: list[str], start: int, name: str, header: list[str]) -> Source | None:
    try:
        body = _parsed("".join(header + lines[start - 1 :]), file).body
    except SyntaxError:
        return None
    node = body[0].body[0] if header and isinstance(body[0], ast.If) else body[0]
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
        return Source(file, node, header + lines[start - 1 :], start - 1 - len(header))
    return None


def _next_outer_line(lines: list[str], begin: int, indent: int) -> int:
    """The index of the first line from `begin` on that is indented by at most `indent`, or the number of lines."""
    for i in range(begin, len(lines)):
        text = lines[i].lstrip()
        if text and text[0] != "#" and len(lines[i]) - len(text) <= indent:
            return i
    return len(lines)


def _exec_text(frame: FrameType | None, code: CodeType) -> tuple[str, list[str]]:
    """The text that `exec` or `python -c` was given, when a caller or its module still holds it.

    A text counts only if the very code that is looked for comes out of it, so a wrong one cannot be taken.
    """
    file = code.co_filename
    inherited = code.co_flags & _FUTURE_FLAGS
    for text in _texts_near(frame):
        for flags in dict.fromkeys((0, inherited)):
            try:
                made = compile(text, file, "exec", flags, dont_inherit=True)
            except (SyntaxError, ValueError, TypeError):
                break
            if code in _codes_below(made):
                name = register_text(text, "exec")
                return name, linecache.getlines(name)
    return file, []


# The one future import whose absence would make other code of the same text.
_FUTURE_FLAGS: Final = __future__.annotations.compiler_flag


def _codes_below(code: CodeType) -> list[CodeType]:
    found = list(constant_codes(code))
    for c in found:
        found.extend(constant_codes(c))
    return found


def _texts_near(frame: FrameType | None) -> Iterator[str]:
    arguments: list[str] = getattr(sys, "orig_argv", [])
    for flag, text in itertools.pairwise(arguments):
        if flag == "-c":
            yield text
            yield text + "\n"
    yield from _typed_texts()
    depth = 0
    while frame is not None and depth < 10:
        for value in (*frame.f_locals.values(), *frame.f_globals.values(), *frame.f_code.co_consts):
            if isinstance(value, str) and ("def " in value or "class " in value):
                yield value
        frame, depth = frame.f_back, depth + 1


def _typed_texts() -> Iterator[str]:
    """What was typed last at the prompt, as far as the line editor remembers: ever more lines, back to a decorator."""
    editor: Any = sys.modules.get("readline")
    if editor is None or not hasattr(sys, "ps1"):
        return
    count = editor.get_current_history_length()
    text = ""
    for i in range(count, max(0, count - _TYPED_LINES), -1):
        line = editor.get_history_item(i) or ""
        text = f"{line}\n{text}"
        if line.startswith("@"):
            yield text


_TYPED_LINES: Final = 500


def class_decorators(frame: FrameType) -> list[ast.expr]:
    """The decorators of the class whose body runs in `frame`; ValueError when its text is not to be had."""
    lines = _lines_of(frame.f_code.co_filename, frame.f_globals)
    if not lines:
        lines = _exec_text(frame, frame.f_code)[1]
    start = frame.f_code.co_firstlineno - 1
    for end in range(start, len(lines)):
        if lines[end].lstrip().startswith("class "):
            header = textwrap.dedent("".join(lines[start:end]))
            node = ast.parse(header + "class _: pass").body[0]
            return list(node.decorator_list) if isinstance(node, ast.ClassDef) else []
    raise ValueError("the text of the class is not available")
