"""A hash of programs that is the same in every process and agrees with structural equality."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
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
from tscript.ir.foreign import find_foreign
from tscript.ir.function import IRModule, PrimFunc

_COMBINE: Final = 4
_OPEN: Final = 5
_CLOSE: Final = 6


def _digest(*parts: bytes) -> bytes:
    h = hashlib.blake2b(digest_size=8)
    for p in parts:
        h.update(len(p).to_bytes(8, "little"))
        h.update(p)
    return h.digest()


class _Hasher:
    """Hashes what is below before what is above; definitions are numbered as they are met."""

    def __init__(self, map_free_vars: bool) -> None:
        self._map_free = map_free_vars
        self._numbers: dict[Node, bytes] = {}
        self._count = 0
        self._memo: dict[Node, bytes] = {}
        self._lets: list[tuple[bytes | None, int]] = []
        self._seen_free: set[Node] = set()
        self._results: list[bytes] = []
        self._stack: list[tuple[Any, int]] = []

    def run(self, root: Any) -> bytes:
        """The digest of `root`."""
        self._stack.append((root, USE))
        while self._stack:
            x, mode = self._stack.pop()
            if mode == _COMBINE:
                self._combine(*x)
            elif mode == _OPEN:
                self._open(x)
            elif mode == _CLOSE:
                self._close(x)
            else:
                if mode == ATTRIBUTE:
                    x = as_constant(x)
                if isinstance(x, Node):
                    self._node(x, mode)
                else:
                    self._value(x, mode)
        return self._results[-1]

    def _open(self, var: Var) -> None:
        old = self._numbers.get(var)
        if old is not None or var in self._seen_free:
            self._memo.clear()
        self._lets.append((old, len(self._memo)))
        self._numbers[var] = digest = _digest(b"Let", type_text(var).encode())
        self._results.append(digest)

    def _close(self, var: Var) -> None:
        old, size = self._lets.pop()
        del self._numbers[var]
        if old is not None:
            self._numbers[var] = old
        # What was hashed inside may hold the variable; what was hashed before cannot.
        while len(self._memo) > size:
            self._memo.popitem()
        self._results.append(b"")

    def _combine(self, node: Any, tag: bytes, count: int) -> None:
        start = len(self._results) - count
        digest = _digest(tag, *self._results[start:])
        del self._results[start:]
        if isinstance(node, PrimExpr):
            self._memo[node] = digest
        self._results.append(digest)

    def _node(self, x: Node, mode: int) -> None:
        if isinstance(x, Var):
            self._results.append(self._var(x, mode))
        elif isinstance(x, Buffer):
            self._buffer(x, mode)
        elif isinstance(x, FloatImm):
            self._results.append(_digest(b"FloatImm", x.dtype.encode(), float_bits(float(rounded(x)))))
        elif isinstance(x, GlobalVar):
            self._results.append(_digest(b"GlobalVar", x.name_hint.encode()))
        elif isinstance(x, PrimExpr) and x in self._memo:
            self._results.append(self._memo[x])
        else:
            self._fields(x, mode)

    def _fields(self, x: Node, mode: int) -> None:
        todo: list[tuple[Any, int]] = []
        for f, kind in ordered_fields(type(x)):
            todo.append((getattr(x, f), mode_below(x, mode, kind)))
            if isinstance(x, PrimFunc) and f == "params":
                rest = dict(x.buffer_map)
                todo.extend((rest.pop(p), DEFINE) for p in x.params if p in rest)
                todo.append((tuple(rest.values()), DEFINE))
        if isinstance(x, ex.Let):
            # The same Let may stand at several places of one program and be several Lets in its equal, so its
            # variable gets no number of its own.
            todo[1] = (x.var, _OPEN)
            todo.append((x.var, _CLOSE))
        elif isinstance(x, IRModule):
            todo.append(({v.name_hint: f for v, f in x.functions.items()}, USE))
        self._push(x, type(x).__name__.encode(), todo)

    def _push(self, node: Any, tag: bytes, todo: list[tuple[Any, int]]) -> None:
        self._stack.append(((node, tag, len(todo)), _COMBINE))
        self._stack.extend(reversed(todo))

    def _number(self, x: Node, what: bytes) -> bytes:
        if x in self._numbers or x in self._seen_free:
            self._memo.clear()
        self._numbers[x] = digest = _digest(what, self._count.to_bytes(8, "little"))
        self._count += 1
        return digest

    def _var(self, x: Var, mode: int) -> bytes:
        known = self._numbers.get(x)
        kind = _digest(type(x).__name__.encode(), type_text(x).encode())
        if mode == BIND or (known is None and (mode == DEFINE or self._map_free)):
            return self._number(x, kind)
        if known is not None:
            return known
        self._seen_free.add(x)
        return _digest(b"free", kind, x.name.encode())

    def _buffer(self, x: Buffer, mode: int) -> None:
        if mode != DEFINE and x in self._numbers:
            self._results.append(self._numbers[x])
            return
        self._number(x, b"Buffer")
        todo = [(getattr(x, f), kind) for f, kind in ordered_fields(Buffer)]
        self._push(None, b"Buffer " + x.scope().encode(), [(x.data, mode), *todo])

    def _value(self, x: Any, mode: int) -> None:
        if isinstance(x, (tuple, list)):
            self._push(None, b"tuple", [(v, mode) for v in x])  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(x, Mapping):
            pairs: list[tuple[Any, Any]] = sorted(x.items(), key=lambda kv: str(kv[0]))  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
            self._push(None, b"dict", [(v, m) for k, e in pairs for v, m in ((str(k), USE), (e, ATTRIBUTE))])
        elif (array := as_array(x)) is not None:
            self._results.append(
                _digest(b"array", array.dtype.str.encode(), repr(array.shape).encode(), array.tobytes())
            )
        elif isinstance(x, float):
            self._results.append(_digest(b"float", float_bits(x)))
        elif x is None or isinstance(x, (str, int)):
            kind = b"text" if isinstance(x, str) else type(x).__name__.encode()
            self._results.append(_digest(kind, str.__str__(x).encode() if isinstance(x, str) else repr(x).encode()))
        elif (foreign := find_foreign(x)) is not None:
            self._results.append(_digest(b"object", foreign.name.encode(), foreign.identity(x).encode()))
        else:
            # Equality of a foreign object says nothing about its text, so only its class counts.
            self._results.append(_digest(b"object", type(x).__name__.encode()))


def structural_hash(a: Any, map_free_vars: bool = False) -> int:
    """A 64-bit number that equal programs share, the same in every process and on every machine.

    Free variables enter by name and type, or with `map_free_vars` by order of first use.

    >>> x, y = Var("x"), Var("y")
    >>> structural_hash(x + 1, map_free_vars=True) == structural_hash(y + 1, map_free_vars=True)
    True
    """
    return int.from_bytes(_Hasher(map_free_vars).run(a), "little")


__all__ = ["structural_hash"]
