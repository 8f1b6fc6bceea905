"""Comparison of programs by structure: equality, a hash that goes with it, and where two programs first differ.

Variables and buffers count by where they are defined, not by name or identity: a loop over `i` equals the
same loop over `j`. Names and source positions are ignored; the name of a block is part of the program, since
schedules refer to it, and functions of a module are matched by name. Floating constants are compared after
rounding to their type, NaN equals NaN, and 0.0 differs from -0.0.

Both walks are driven by one table that lists, for each class, its fields in the order in which names come
into scope and whether a field defines names, so a new node class with plain fields needs no line here. They
use explicit stacks, so depth is no limit, and remember shared expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tscript.ir import expr as ex
from tscript.ir.base import Node
from tscript.ir.binding import (
    ATTRIBUTE,
    BIND,
    DEFINE,
    USE,
    as_array,
    as_constant,
    float_bits,
    mode_below,
    ordered_fields,
    type_text,
)  # fmt: skip
from tscript.ir.buffer import Buffer
from tscript.ir.construct import rounded
from tscript.ir.expr import FloatImm, GlobalVar, PrimExpr, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.hashing import structural_hash
from tscript.ir.stmt import Stmt
from tscript.support.errors import InternalError, VerifyError
from tscript.support.wording import kind_of

_OPEN: Final = 4
_CLOSE: Final = 5


class StructuralMismatch(VerifyError, ValueError):
    """Two programs that were asserted to be equal differ.

    Attributes: `path` (how to reach the first difference from either program), `left`, `right` (what stands
    there) and `reason`.
    """

    def __init__(self, message: str, path: str, left: Any, right: Any, reason: str) -> None:
        super().__init__(message)
        self.path = path
        self.left = left
        self.right = right
        self.reason = reason


_Path = tuple[Any, ...] | None  # (the path above, last step): text for a field, an int or a key in a 1-tuple otherwise


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two programs differ."""

    path: str
    left: Any
    right: Any
    reason: str


def _path_text(path: _Path) -> str:
    steps: list[Any] = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = "".join(f".{s}" if isinstance(s, str) else f"[{s[0]!r}]" for s in reversed(steps))
    return text.removeprefix(".")


_Task = tuple[Any, Any, Any, int]


class _Comparison:
    """One comparison: a stack of pairs still to compare, and which names correspond so far."""

    def __init__(self, map_free_vars: bool) -> None:
        self._map_free = map_free_vars
        self._right_of: dict[Node, Node] = {}
        self._left_of: dict[Node, Node] = {}
        self._seen_free: set[Node] = set()
        # Pairs of expressions met before: a difference ends everything, so a pair tells nothing new when it
        # comes again while the names mean the same.
        self._done: dict[tuple[Node, Node], None] = {}
        self._lets: list[tuple[Node | None, Node | None, int | None]] = []
        self._only_identical = not map_free_vars
        self._stack: list[_Task] = []

    def run(self, a: Any, b: Any) -> Difference | None:
        """The first difference of `a` and `b`, or None."""
        stack = self._stack
        stack.append((a, b, None, USE))
        while stack:
            x, y, path, mode = stack.pop()
            if mode == _CLOSE:
                self._close(x, y)
                continue
            if mode == ATTRIBUTE:
                x, y = as_constant(x), as_constant(y)
            if mode == _OPEN:
                reason = self._open(x, y, path)
            elif isinstance(x, Node) and isinstance(y, Node):
                reason = self._nodes(x, y, path, mode)
            else:
                reason = self._values(x, y, path, mode)
            if reason:
                return Difference(_path_text(path), x, y, reason)
        return None

    def _nodes(self, x: Node, y: Node, path: _Path, mode: int) -> str | None:
        if type(x) is not type(y):
            return f"{kind_of(x)} stands against {kind_of(y)}"
        special = _COMPARE.get(type(x))
        if special is not None:
            return special(self, x, y, path, mode)
        if x is y and self._only_identical and mode == USE and isinstance(x, (PrimExpr, Stmt)):
            return None
        if isinstance(x, PrimExpr):
            if (x, y) in self._done:
                return None
            self._done[x, y] = None
        self._push_fields(x, y, path, mode)
        return None

    def _push_fields(self, x: Node, y: Node, path: _Path, mode: int) -> None:
        todo: list[_Task] = []
        for f, kind in ordered_fields(type(x)):
            todo.append((getattr(x, f), getattr(y, f), (path, f), mode_below(x, mode, kind)))
            if isinstance(x, PrimFunc) and f == "params":
                todo.extend(_parameter_buffers(x, y, path))  # pyright: ignore[reportArgumentType]
        if isinstance(x, ex.Let) and isinstance(y, ex.Let):
            todo[1] = (x.var, y.var, (path, "var"), _OPEN)
            todo.append((x.var, y.var, None, _CLOSE))
        self._stack.extend(reversed(todo))

    def _open(self, x: Var, y: Var, path: _Path) -> str | None:
        """Enter the body of a Let: remember what its names meant outside."""
        partner, back = self._right_of.get(x), self._left_of.get(y)
        known = partner is not None or back is not None or x in self._seen_free or y in self._seen_free
        self._lets.append((partner, back, None if known else len(self._done)))
        return self._vars(x, y, path, BIND)

    def _close(self, x: Var, y: Var) -> None:
        """Leave the body of a Let: its names mean again what they meant before."""
        partner, back, size = self._lets.pop()
        for table, key, old in ((self._right_of, x, partner), (self._left_of, y, back)):
            if old is None:
                table.pop(key, None)
            else:
                table[key] = old
        if size is None:
            self._done.clear()
        while len(self._done) > (size or 0):
            self._done.popitem()

    def _bind(self, x: Node, y: Node) -> None:
        old = self._right_of.get(x)
        if old is y and self._left_of.get(y) is x:
            return
        # What was found equal under the old meaning of a name says nothing under the new one.
        if old is not None or y in self._left_of or x in self._seen_free or y in self._seen_free:
            self._done.clear()
        self._right_of[x] = y
        self._left_of[y] = x
        if x is not y:
            self._only_identical = False

    def _vars(self, x: Var, y: Var, path: _Path, mode: int) -> str | None:
        partner, back = self._right_of.get(x), self._left_of.get(y)
        if mode == BIND or (mode == DEFINE and partner is None and back is None):
            if x.type_annotation is not y.type_annotation:
                return f"the variables have the types {type_text(x)} and {type_text(y)}"
            self._bind(x, y)
            return None
        if partner is not None or back is not None:
            return None if partner is y and back is x else "these variables are defined at different places"
        if self._map_free:
            return self._vars(x, y, path, BIND)
        self._seen_free.add(x)
        self._seen_free.add(y)
        return None if x is y else "different variables, defined outside both programs"

    def _buffers(self, x: Buffer, y: Buffer, path: _Path, mode: int) -> str | None:
        partner, back = self._right_of.get(x), self._left_of.get(y)
        if mode != DEFINE and (partner is not None or back is not None):
            return None if partner is y and back is x else "these buffers are defined at different places"
        if x.scope() != y.scope():
            return f"the buffers lie in {x.scope()!r} and {y.scope()!r}"
        self._bind(x, y)
        self._push_fields(x, y, path, mode)
        # A view that is used without a declaration is no place where its pointer could be defined.
        self._stack.append((x.data, y.data, (path, "data"), mode))
        return None

    def _floats(self, x: FloatImm, y: FloatImm, path: _Path, mode: int) -> str | None:
        del path, mode
        if x.dtype is not y.dtype:
            return f"the types are {x.dtype!s} and {y.dtype!s}"
        same = float_bits(float(rounded(x))) == float_bits(float(rounded(y)))
        return None if same else f"the constants are {x.value!r} and {y.value!r}"

    def _global_vars(self, x: GlobalVar, y: GlobalVar, path: _Path, mode: int) -> str | None:
        del path, mode
        return None if x.name_hint == y.name_hint else f"the functions are {x.name_hint!r} and {y.name_hint!r}"

    def _modules(self, x: IRModule, y: IRModule, path: _Path, mode: int) -> str | None:
        left = {v.name_hint: f for v, f in x.functions.items()}
        right = {v.name_hint: f for v, f in y.functions.items()}
        self._stack.append((left, right, (path, "functions"), USE))
        self._push_fields(x, y, path, mode)
        return None

    def _mappings(self, x: dict[Any, Any], y: dict[Any, Any], path: _Path) -> str | None:
        for key in (*x, *y):
            if key not in x or key not in y:
                return f"only the {'left' if key in x else 'right'} one has {key!r}"
        self._stack.extend((x[key], y[key], (path, (key,)), ATTRIBUTE) for key in reversed(list(x)))
        return None

    def _values(self, x: Any, y: Any, path: _Path, mode: int) -> str | None:
        """Compare what is no pair of nodes: tuples, dicts, numbers, texts, arrays."""
        if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
            if len(x) != len(y):  # pyright: ignore[reportUnknownArgumentType]
                return f"there are {len(x)} on the left and {len(y)} on the right"  # pyright: ignore[reportUnknownArgumentType]
            pairs: list[tuple[Any, Any]] = list(zip(x, y, strict=True))  # pyright: ignore[reportUnknownArgumentType]
            self._stack.extend((*pairs[i], (path, (i,)), mode) for i in range(len(pairs) - 1, -1, -1))
            return None
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            return self._mappings(dict(x), dict(y), path)  # pyright: ignore[reportUnknownArgumentType]
        if (a := as_array(x)) is not None and (b := as_array(y)) is not None:
            same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            return None if same else "the constant data differ"
        return None if _plain_equal(x, y) else "the values differ"


_COMPARE: Final[dict[type[Node], Callable[[_Comparison, Any, Any, _Path, int], str | None]]] = {
    Var: _Comparison._vars,  # pyright: ignore[reportPrivateUsage]
    ex.SizeVar: _Comparison._vars,  # pyright: ignore[reportPrivateUsage]
    Buffer: _Comparison._buffers,  # pyright: ignore[reportPrivateUsage]
    FloatImm: _Comparison._floats,  # pyright: ignore[reportPrivateUsage]
    GlobalVar: _Comparison._global_vars,  # pyright: ignore[reportPrivateUsage]
    IRModule: _Comparison._modules,  # pyright: ignore[reportPrivateUsage]
}


def _parameter_buffers(x: PrimFunc, y: PrimFunc, path: _Path) -> Iterator[_Task]:
    """Buffers in the order of the parameters they belong to (the keys are variables, which cannot be matched)."""
    where = (path, "buffer_map")
    rest_x, rest_y = dict(x.buffer_map), dict(y.buffer_map)
    for i, (p, q) in enumerate(zip(x.params, y.params, strict=False)):
        a, b = rest_x.pop(p, None), rest_y.pop(q, None)
        if a is not None or b is not None:
            yield a, b, (where, (f"params[{i}]",)), DEFINE
    if rest_x or rest_y:
        yield tuple(rest_x.values()), tuple(rest_y.values()), (where, ("others",)), DEFINE


def _plain_equal(x: Any, y: Any) -> bool:
    if isinstance(x, Node) or isinstance(y, Node):
        return False
    if isinstance(x, float) and isinstance(y, float):
        return float_bits(x) == float_bits(y)
    # Python says 1 == True == 1.0; a program does not.
    if any(isinstance(x, kind) is not isinstance(y, kind) for kind in (bool, int, float)):
        return False
    return bool(x == y)


def first_difference(a: Any, b: Any, map_free_vars: bool = False) -> Difference | None:
    """Where two nodes (or tuples or dicts of nodes) first differ; None when they are equal."""
    return _Comparison(map_free_vars).run(a, b)


def structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """Whether two nodes are the same program up to the choice of names.

    Variables and buffers defined outside are the same only if they are the same objects, unless
    `map_free_vars`: then any one-to-one correspondence of the same types will do.

    >>> x, y = Var("x"), Var("y")
    >>> structural_equal(x + 1, y + 1), structural_equal(x + 1, y + 1, map_free_vars=True)
    (False, True)
    """
    return first_difference(a, b, map_free_vars) is None


def assert_structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> None:
    """Raise StructuralMismatch, which tells where `a` and `b` first differ, unless they are equal."""
    found = first_difference(a, b, map_free_vars)
    if found is None:
        return
    where = f"at {found.path}" if found.path else "at the top"
    lines = [
        f"the programs differ {where}: {found.reason}",
        f"  left:  {_shown(found.left)}",
        f"  right: {_shown(found.right)}",
        *_excerpts(a, b),
    ]
    raise StructuralMismatch("\n".join(lines), found.path, found.left, found.right, found.reason)


def _text(value: Any) -> str | None:
    """The script of a node, or None where no printer is loaded or the node cannot be printed."""
    try:
        return value.script() if isinstance(value, Node) else repr(value)
    except (InternalError, TypeError, ValueError, AttributeError, KeyError):
        return None


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        keys: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return "a mapping of " + (", ".join(map(repr, keys)) or "nothing")
    text = _text(value)
    if text is None:
        return getattr(value, "name", None) or f"<{type(value).__name__}>"
    lines = text.strip().splitlines()
    return "\n         ".join(lines if len(lines) <= 6 else [*lines[:6], "..."])


def _excerpts(a: Any, b: Any, around: int = 4) -> list[str]:
    """Both programs' lines around the first one that differs."""
    left, right = _text(a), _text(b)
    if left is None or right is None or left == right:
        return []
    x, y = left.splitlines(), right.splitlines()
    at = next((i for i, (p, q) in enumerate(zip(x, y, strict=False)) if p != q), min(len(x), len(y)))
    result: list[str] = []
    for side, lines in (("left", x), ("right", y)):
        result.append(f"{side} program, line {at + 1}:")
        for i in range(max(0, at - around), min(len(lines), at + around + 1)):
            result.append(f"{'>' if i == at else ' '} {i + 1:4} | {lines[i]}")
    return result


__all__ = [
    "Difference", "StructuralMismatch", "assert_structural_equal", "first_difference", "structural_equal",
    "structural_hash",
]  # fmt: skip
