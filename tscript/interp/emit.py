"""The state of translation: scopes of generated lines, names, and values as pieces of Python source.

Scopes mirror the nesting of the generated code. An integer computation that depends on outer loops only
is placed in the outermost scope that knows its variables: it costs nothing in the inner loops.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType
from tscript.ir.expr import GlobalVar, PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import children
from tscript.ir.stmt import Stmt
from tscript.support.span import Span

FIXED = 1 << 30
"""Level of what must be computed where it stands, such as a load."""
INDENT = "    "
DEEP = "_deep"


@dataclass(frozen=True, slots=True)
class Val:
    """A value as Python source.

    `simple`: a name or literal, cheap to repeat. `lo`, `hi`: bounds of integers. `level`: depth of the
    outermost scope in which the source means the same. `terms` and `const`: an integer as a sum of
    multiples of other values. `pending`: a float type the value must still be rounded to.
    """

    code: str
    simple: bool = False
    lo: int = 0
    hi: int = 0
    level: int = FIXED
    terms: dict[Val, int] | None = field(default=None, compare=False)
    const: int = 0
    pending: DataType | None = None


_PRIMARY = re.compile(r"\w+(\[[^\[\]]*\]|\([^()]*\))")


def paren(v: Val) -> str:
    """The source of `v`, fit to be an operand."""
    return v.code if v.simple or _PRIMARY.fullmatch(v.code) else f"({v.code})"


def number(value: int) -> Val:
    """An integer literal."""
    code = str(value) if value >= 0 else f"({value})"
    return Val(code, True, value, value, 0, {}, value)


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """What a generated line belongs to: the statement and the loop variables around it (name, source)."""

    stmt: Stmt | None
    loops: tuple[tuple[str, str], ...]
    span: Span | None = None


class Scope:
    """Lines at one depth, with what was computed there already."""

    __slots__ = ("cache", "lines", "memo", "nested")

    def __init__(self, nested: int) -> None:
        self.lines: list[tuple[str, Site] | Scope] = []
        self.cache: dict[str, str] = {}
        self.memo: dict[PrimExpr, Val] = {}
        self.nested = nested  # loops around, within the same Python function


@dataclass(frozen=True, slots=True)
class Options:
    """What the generated code checks."""

    check_uninitialized: bool = False
    check_regions: bool = True
    count_steps: bool = False


@dataclass(slots=True, eq=False)
class Region:
    """A box that a block declares: for each dimension the lower end and the extent."""

    buffer: Buffer
    bounds: tuple[tuple[Val, Val], ...]


@dataclass(slots=True, eq=False)
class BlockFrame:
    """A block being translated, and the number of buffer owners around it."""

    name: str
    depth: int
    reads: list[Region]
    writes: list[Region]
    checked: bool  # False for a block that declares nothing at all, such as the root
    initialises: bool = False  # True for a block with an init


@dataclass(slots=True, eq=False)
class View:
    """How generated code reaches the elements of a buffer."""

    buffer: Buffer
    memory: str  # name of the memoryview
    shadow: str  # name of its shadow, or ""
    base: Val
    lows: tuple[Val, ...]  # first valid subscript of each dimension
    extents: tuple[Val, ...]
    extent_exprs: tuple[PrimExpr, ...]
    strides: tuple[Val, ...]
    depth: int  # blocks around the place where it was introduced
    home: Scope  # where `memory` was assigned
    source: View | None = None  # what a match_buffer shows, and
    corner: tuple[Val, ...] = ()  # where in it the view starts


Handler = Callable[["Gen", Any], Val]
EXPRESSIONS: dict[type[Node], Handler] = {}
"""Translation of scalar expressions, by class."""
VECTORS: dict[type[Node], Handler] = {}
"""Translation of vector expressions, by class."""
STATEMENTS: dict[type[Node], Callable[[Gen, Any], None]] = {}
"""Translation of statements, by class."""

HandlerT = Callable[["Gen", Any], Any]


def handles(table: dict[type[Node], Any], *classes: type[Node]) -> Callable[[HandlerT], HandlerT]:
    """Register the decorated function in `table` for `classes`."""

    def register(fn: HandlerT) -> HandlerT:
        for cls in classes:
            table[cls] = fn
        return fn

    return register


def nodes_below(node: Node) -> Iterator[Node]:
    """`node` and everything below it, parents first; what occurs in several places once."""
    seen: set[Node] = {node}
    stack = [node]
    while stack:
        n = stack.pop()
        yield n
        below = [c for c in children(n) if c not in seen]
        seen.update(below)
        stack.extend(reversed(below))


_RESERVED = frozenset(keyword.kwlist) | frozenset(dir(builtins)) | {DEEP}


class Gen:
    """Translation of one function."""

    def __init__(
        self, options: Options, functions: dict[GlobalVar, tuple[PrimFunc, str]], namespace: dict[str, Any]
    ) -> None:
        self.options = options
        self.functions = functions
        self.namespace = namespace
        self.names: set[str] = set(_RESERVED)
        self.stack: list[Scope] = [Scope(0)]
        self.site = Site(None, ())
        self.loops: tuple[tuple[str, str], ...] = ()
        self.env: dict[Var, Val] = {}
        self.bound: set[Var] = set()
        self.pointers: dict[Var, str] = {}
        self.pointer_levels: dict[Var, int] = {}
        self.views: dict[Buffer, View] = {}
        self.uppers: dict[str, PrimExpr] = {}
        self.blocks: list[BlockFrame] = []
        self.sharing: dict[PrimExpr, int] = {}
        self.inline = False
        self.strict = False
        self.in_threads = False
        self.threads: dict[str, tuple[Val, Val]] = {}
        self.launched: set[Var] = set()
        self.launched_tags: dict[str, tuple[Val, Val]] = {}
        self.thread_tags: dict[Var, str] = {}
        self.private: list[tuple[Var, str]] = []
        self.reducers: list[Any] = []

    # -- names and lines ------------------------------------------------------------------------

    def name(self, hint: str) -> str:
        """A Python name nobody has yet, like `hint`."""
        base = re.sub(r"\W", "_", hint) or "v"
        if not (base[0].isalpha() and base.isascii()):
            base = "v" + re.sub(r"[^A-Za-z0-9_]", "_", base)
        made, n = base, 0
        while made in self.names:
            n += 1
            made = f"{base}_{n}"
        self.names.add(made)
        return made

    def constant(self, hint: str, value: object) -> str:
        """The name of a global of the generated module that holds `value`."""
        for name, held in self.namespace.items():
            if held is value and name.startswith(hint):
                return name
        made = hint
        n = 0
        while made in self.namespace or made in self.names:
            n += 1
            made = f"{hint}{n}"
        self.namespace[made] = value
        self.names.add(made)
        return made

    def line(self, text: str) -> None:
        """Append a line to the innermost scope."""
        assert not self.inline, "an inline expression cannot emit a statement"
        self.stack[-1].lines.append((text, self.site))

    def push(self, loop: bool = False, function: bool = False) -> Scope:
        """Open a nested scope."""
        scope = Scope(0 if function else self.stack[-1].nested + loop)
        self.stack.append(scope)
        return scope

    def pop(self, header: str) -> None:
        """Close the innermost scope and append it under `header`."""
        self.attach(header, self.stack.pop())

    def attach(self, header: str, scope: Scope) -> None:
        """Append a closed scope under `header`."""
        self.line(header)
        self.stack[-1].lines.append(scope)

    @property
    def level(self) -> int:
        """Depth of the innermost scope."""
        return len(self.stack) - 1

    # -- values ---------------------------------------------------------------------------------

    def opaque(self, code: str, lo: int = 0, hi: int = 0, level: int = FIXED, simple: bool = False) -> Val:
        """An integer that is its own only term; hoisted when outer loops alone decide it."""
        if not simple and level < self.level:
            code, simple = self._hoist(code, level), True
        atom = Val(code, simple, lo, hi, level)
        return Val(code, simple, lo, hi, level, {atom: 1}, 0)

    def _hoist(self, code: str, level: int) -> str:
        scope = self.stack[level]
        found = scope.cache.get(code)
        if found is None:
            found = self.name("h")
            scope.lines.append((f"{found} = {code}", self.site))
            scope.cache[code] = found
        return found

    def hold(self, v: Val, hint: str = "t") -> Val:
        """`v` computed now and kept under a name (as it is when simple)."""
        if v.simple:
            return v
        if self.inline:
            return Val(f"({v.code})", True, v.lo, v.hi, v.level, v.terms, v.const)
        made = self.name(hint)
        self.line(f"{made} = {v.code}")
        return self.opaque(made, v.lo, v.hi, FIXED if v.level == FIXED else self.level, True)

    def named(self, code: str, lo: int = 0, hi: int = 0) -> Val:
        """The value of a Python variable assigned in the innermost scope."""
        return self.opaque(code, lo, hi, self.level, True)

    def render(self, terms: dict[Val, int], const: int, lo: int, hi: int) -> Val:
        """A sum of multiples; partial sums of outer variables are computed in outer scopes."""
        if not terms:
            return number(const)
        ordered = sorted(terms.items(), key=lambda item: item[0].level)
        total: str | None = str(const) if const > 0 else None
        total_simple, level = True, 0
        for i, (atom, factor) in enumerate(ordered):
            if total is not None and not total_simple and level < min(atom.level, self.level):
                total, total_simple = self._hoist(total, level), True
            part = paren(atom) if abs(factor) == 1 else f"{paren(atom)} * {abs(factor)}"
            level = max(level, atom.level)
            if total is None:
                total = part if factor > 0 else f"-{part}" if abs(factor) == 1 else f"{paren(atom)} * {factor}"
                total_simple = atom.simple and factor == 1
            else:
                # A constant written first would be added in the innermost loop again and again.
                total = f"{total} + {part}" if factor > 0 else f"{total} - {part}"
                total_simple = False
            del i
        assert total is not None
        if const < 0:
            total, total_simple = f"{total} - {-const}", False
        if not total_simple and level < self.level:
            total, total_simple = self._hoist(total, level), True
        return Val(total, total_simple, lo, hi, level, terms, const)

    def enter(self, stmt: Stmt) -> Site:
        """Attribute the lines made from here on to `stmt`; returns what they belonged to before."""
        before = self.site
        self.site = Site(stmt, self.loops, stmt.span or before.span)
        return before

    def stmt(self, s: Stmt) -> None:
        """Translate a statement into the innermost scope."""
        before = self.enter(s)
        STATEMENTS[type(s)](self, s)
        self.site = before


Lines = list[tuple[str, Site | None]]
MAX_INDENT = 80
"""Depth from which scopes stand apart: CPython reads no more than 100 levels of indentation."""


def flatten(scope: Scope, depth: int, out: Lines, apart: list[Scope]) -> None:
    """Append the lines of `scope`, indented, with their sites.

    Scopes that are too deep are appended to `apart` instead; a line `_deep[number]` stands for each.
    """
    if not scope.lines:
        out.append((INDENT * depth + "pass", None))
    for item in scope.lines:
        if not isinstance(item, Scope):
            out.append((INDENT * depth + item[0], item[1]))
        elif depth + 1 < MAX_INDENT:
            flatten(item, depth + 1, out, apart)
        else:
            out.append((INDENT * (depth + 1) + f"{DEEP}[{len(apart)}]", None))
            apart.append(item)
