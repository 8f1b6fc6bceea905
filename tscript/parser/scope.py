"""Names: what a name means at a place in the source, and what may be bound anew.

A name bound in a kernel belongs to the innermost open scope (function, loop, branch, `with`) and is gone
at its end. All other names come, as in Python, from the function around, then the module, then builtins.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn

from tscript.ir.expr import PrimExpr
from tscript.parser.diagnostics import close_matches, fail
from tscript.support.span import Span

Kind = Literal["let", "alias", "definition"]
"""How a name was bound: to a variable of the program, to a value at reading time, or to a thing it names."""

_DIALECTS = ("tscript.script.tir", "tscript.script.tirx", "tscript.script.ir")


class Binding:
    """What a name stands for, how and where it was bound."""

    __slots__ = ("kind", "span", "value")

    def __init__(self, value: Any, kind: Kind, span: Span | None) -> None:
        self.value = value
        self.kind: Kind = kind
        self.span = span


class Scope:
    """The names visible while one function or macro is read.

    `captured` are the mappings to search, in order, for names not bound in the source. `outer` are names
    of the place a macro is used at, which the macro sees but cannot bind anew. `hints` tell, for names that
    have no value here, what to do; `otherwise`, where set, does so for a name that is like no other.
    """

    __slots__ = ("captured", "ended", "hints", "levels", "otherwise", "outer", "values")

    def __init__(
        self,
        captured: Sequence[Mapping[str, Any]],
        outer: Iterable[str] = (),
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self.values: dict[str, Binding] = {}
        self.captured = (*captured, vars(builtins))
        self.levels: list[tuple[str, dict[str, Binding | None]]] = [("function", {})]
        self.ended: dict[str, tuple[str, Span | None]] = {}
        self.outer = frozenset(outer)
        self.hints = hints or {}
        self.otherwise: Callable[[str], str] | None = None

    def push(self, what: str) -> None:
        """Open a scope; `what` names it in messages."""
        self.levels.append((what, {}))

    def pop(self) -> None:
        """Close the innermost scope; names bound in it are gone."""
        what, saved = self.levels.pop()
        values = self.values
        for name, before in saved.items():
            if before is None:
                self.ended[name] = (what, values[name].span)
                del values[name]
            else:
                values[name] = before

    def lookup(self, name: str) -> Any:
        """The value of a name; ScriptError with similar names if there is none."""
        binding = self.values.get(name)
        if binding is not None:
            return binding.value
        if name in self.ended:
            what, span = self.ended[name]
            where = f" at line {span.line}" if span is not None else ""
            fail(
                f"`{name}` has no value here. It was bound in a {what}{where} and is gone after it",
                None,
                f"bind `{name}` before the {what}, or keep the value in a buffer",
            )
        for mapping in self.captured:
            if name in mapping:
                return mapping[name]
        hint = self.hints.get(name) or self._find_likely(name)
        if hint is None and self.otherwise is not None:
            hint = self.otherwise(name)
        fail(f"`{name}` is not defined", None, hint)

    def find(self, name: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        binding = self.values.get(name)
        if binding is not None:
            return binding.value
        if name not in self.ended:
            for mapping in self.captured:
                if name in mapping:
                    return mapping[name]
        return default

    def known_names(self) -> list[str]:
        """All visible names."""
        return [*self.values, *(n for m in self.captured for n in m)]

    def _find_likely(self, name: str) -> str | None:
        """A hint at what was meant by a name that nothing has."""
        *captured, python = self.captured
        for mapping in captured:
            for prefix, value in mapping.items():
                if getattr(value, "__name__", None) in _DIALECTS and name in dir(value):
                    return f"did you mean `{prefix}.{name}`?"
        # A name of the kernel or of the file is meant more often than a builtin, which must be very close.
        known = [*self.values, *(n for m in captured for n in m)]
        # Names of two letters that share one are alike by a half.
        likely = close_matches(name, known, cutoff=0.5 if len(name) == 2 else 0.6)
        return likely or close_matches(name, python, cutoff=0.75)

    def bind(self, name: str, value: Any, kind: Kind, span: Span | None) -> None:
        """Bind a name in the innermost scope.

        A let may be bound anew in its own scope with the same type. ScriptError for other names that the
        scope has already, and for a let of a name from further out: the new value would be lost at the
        end of the scope.
        """
        level = self.levels[-1][1]
        old = self.values.get(name)
        if name in level and old is not None:
            if not _may_replace(name, old, value, kind):
                _refuse_again(name, old, value, kind)
        else:
            if (
                kind != "definition"
                and (old is not None or name in self.outer)
                and (old is None or old.value is not value)
            ):
                self._refuse_lost(name, old)
            level[name] = old
        self.values[name] = Binding(value, kind, span)
        self.ended.pop(name, None)

    def define(self, name: str, value: Any) -> None:
        """Bind a name in the innermost scope, over whatever it meant (parameters, comprehensions)."""
        level = self.levels[-1][1]
        if name not in level:
            level[name] = self.values.get(name)
        self.values[name] = Binding(value, "alias", None)

    def forget(self) -> None:
        """Close the innermost scope without a trace (comprehensions)."""
        for name, before in self.levels.pop()[1].items():
            if before is None:
                del self.values[name]
            else:
                self.values[name] = before

    def _refuse_lost(self, name: str, old: Binding | None) -> NoReturn:
        what = self.levels[-1][0]
        if old is None:
            fail(
                f"{name} belongs to the place the macro is used at; the new value would be lost after the macro",
                None,
                "use another name, or a buffer",
            )
        where = f" at line {old.span.line}" if old.span is not None else ""
        fail(
            f"{name} is bound outside{where}; the new value would be lost after the {what}",
            None,
            f"keep the value in a buffer (T.alloc_buffer), use T.if_then_else, or another name inside the {what}",
        )


def _may_replace(name: str, old: Binding, value: Any, kind: Kind) -> bool:
    # By custom `_` is a name for what is not used.
    if old.value is value or name == "_":
        return True
    if old.kind == "let" and kind == "let":
        return isinstance(value, PrimExpr) and old.value.dtype is value.dtype
    return old.kind == "alias" and kind == "alias"


def _refuse_again(name: str, old: Binding, value: Any, kind: Kind) -> NoReturn:
    where = f" (line {old.span.line})" if old.span is not None else ""
    if old.kind == "let" and kind == "let":
        detail = f", as {old.value.dtype!s}; the new value is {value.dtype!s}"
        hint = "convert the new value to that type, or use another name"
    else:
        detail, hint = "", "use another name; elements of buffers can be assigned again"
    fail(f"`{name}` is already bound in this scope{where}{detail}", None, hint)
