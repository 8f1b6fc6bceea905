"""The node base: a class body of annotations becomes an immutable, slotted, optionally interned node.

Interned classes keep one live object for each combination of fields, so that identity is equality of
form. The pool maps the fields to a weak reference; the node owns its children, so a child's identity
cannot be reused while an entry that names it is alive.
"""

from __future__ import annotations

import os
import struct
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast

from tscript.support.errors import InternalError

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object):
        # In `typing` from Python 3.11 on; only type checkers read it.
        return lambda cls: cls


def derived(*, init: Literal[False] = False) -> Any:
    """Declare a field that is computed from the others, by `_derive_<name>` of the class."""
    return _DERIVED


def trailing(*, default: Any, kw_only: Literal[True] = True) -> Any:
    """Declare a field with a default that stays behind those of subclasses."""
    return default


def converted(*, converter: Callable[[Any], Any], default: Any = None) -> Any:
    """Declare a field that takes whatever `converter` takes; `_coerce` does the conversion."""
    return _REQUIRED if default is None else default


class _Marker:
    pass


_DERIVED = _Marker()
_REQUIRED = _Marker()


class FrozenDict(dict[Any, Any]):
    """A dict that refuses to change. Not hashable, so only nodes that are not interned hold one."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("IR nodes are immutable; build a new one with the changed mapping instead")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[Any, Any]]]:
        return FrozenDict, (dict(self),)


def _as_tuple(value: Iterable[Any]) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", value) if type(value) is tuple else tuple(value)


def _as_frozen(value: Mapping[str, Any] | None) -> FrozenDict:
    if type(value) is FrozenDict:
        return value
    return FrozenDict({k: _as_frozen_value(v) for k, v in (value or {}).items()})


def _as_frozen_value(value: Any) -> Any:
    """Lists and dicts inside attributes, as they are kept: tuples and frozen dicts, which traversal goes through."""
    if type(value) in (list, tuple):
        return tuple(_as_frozen_value(v) for v in value)
    return _as_frozen(value) if type(value) is dict else value  # pyright: ignore[reportUnknownArgumentType]


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(derived, trailing, converted))
class NodeMeta(type):
    """Turns annotations into slots and a generated constructor.

    `interned=True` gives hash-consing. A field annotated `tuple[...]` accepts any iterable and one
    annotated `Attrs` any mapping. A class may define `_coerce` (static; fields in, fields out),
    `_check(self)` and, for derived fields, `_derive_<name>(self)`.
    """

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        ns: dict[str, Any],
        *,
        interned: bool = False,
    ) -> NodeMeta:
        own: dict[str, str] = {k: str(v) for k, v in ns.get("__annotations__", {}).items() if "ClassVar" not in str(v)}
        defaults = {k: ns.pop(k) for k in own if k in ns}
        inherited: dict[str, tuple[str, Any]] = {}
        for base in reversed(bases):
            inherited.update(getattr(base, "_field_info", {}))
        taken = set(inherited)
        info = {**inherited, **{k: (t, defaults.get(k, _REQUIRED)) for k, t in own.items()}}
        # Required fields first, then own ones with defaults, then those a base declares (a span, say).
        ordered = sorted(info.items(), key=lambda kv: 0 if kv[1][1] is _REQUIRED else 1 if kv[0] in own else 2)
        ns["_field_info"] = dict(ordered)
        ns["_fields"] = tuple(k for k, (_, d) in ordered if d is not _DERIVED)
        ns["_derived"] = tuple(k for k, (_, d) in ordered if d is _DERIVED)
        ns["__match_args__"] = ns["_fields"]
        ns.setdefault("__slots__", tuple(k for k in own if k not in taken))
        cls = super().__new__(mcls, name, bases, ns)
        if (own or interned) and ns["_field_info"] and "__init__" not in ns and "__new__" not in ns:
            _generate(cls, interned)
        return cls


_PLAIN = frozenset({int, float, bool, str, complex, NoneType})
"""What people write where an expression belongs."""

_EXPRESSIONS = {"PrimExpr", "PrimExpr | None", "tuple[PrimExpr, ...]"}


class _ConverterSlot:
    convert: Callable[[Any, Mapping[str, Any]], dict[str, Any]] | None = None


def register_converter(convert: Callable[[Any, Mapping[str, Any]], dict[str, Any]]) -> None:
    """Install what makes expressions of the plain numbers among the fields of a class; called once."""
    _ConverterSlot.convert = convert


def _converted_fields(cls: Any, *values: Any) -> list[Any]:
    """The fields of a node of `cls` with expressions in place of plain numbers."""
    if _ConverterSlot.convert is None:
        raise InternalError("what makes expressions of numbers is not loaded; import tscript.ir first")
    return list(_ConverterSlot.convert(cls, dict(zip(cls._fields, values, strict=True))).values())


def _with_expressions(cls: Any, *values: Any) -> Any:
    return cls(*_converted_fields(cls, *values))


def _plain_fields(info: Mapping[str, tuple[str, Any]], fields: Iterable[str]) -> str:
    """The test, as source, whether a field that takes expressions holds anything plain."""
    tests: list[str] = []
    for f in fields:
        kind = info[f][0]
        if kind == "tuple[PrimExpr, ...]":
            tests.append(f"not _PLAIN.isdisjoint(map(type, {f}))")
        elif kind in _EXPRESSIONS:
            optional = f"{f} is not None and " if kind.endswith("None") else ""
            tests.append(f"{optional}{f}.__class__ in _PLAIN")
    return " or ".join(f"({t})" for t in tests)


def _generate(cls: Any, interned: bool) -> None:
    info: dict[str, tuple[str, Any]] = cls._field_info
    env: dict[str, Any] = {"_as_tuple": _as_tuple, "_as_frozen": _as_frozen, "_ref": weakref.ref}
    params: list[str] = []
    body: list[str] = []
    fields: tuple[str, ...] = cls._fields
    for f in fields:
        kind, default = info[f]
        env[f"_set_{f}"] = getattr(cls, f).__set__
        if default is _REQUIRED:
            params.append(f)
        else:
            env[f"_default_{f}"] = default
            params.append(f"{f}=_default_{f}")
    if "_coerce" in dir(cls):
        env["_coerce"] = cls._coerce
        names = ", ".join(fields) + ("," if len(fields) == 1 else "")
        body.append(f"{names} = _coerce({', '.join(fields)})")
    for f in fields:
        kind = info[f][0]
        if kind.startswith("tuple["):
            body.append(f"if type({f}) is not tuple: {f} = _as_tuple({f})")
        elif kind == "Attrs":
            body.append(f"{f} = _as_frozen({f})")
    fill = [f"_set_{f}(self, {f})" for f in fields]
    for f in cls._derived:
        env[f"_set_{f}"] = getattr(cls, f).__set__
        fill.append(f"_set_{f}(self, self._derive_{f}())")
    if "_check" in dir(cls):
        fill.append("self._check()")
    plain = _plain_fields(info, fields)
    env.update(_PLAIN=_PLAIN, _with_expressions=_with_expressions, _converted_fields=_converted_fields)
    if interned:
        pool: dict[Any, weakref.ref[Any]] = {}
        cls._pool = pool
        env.update(_pool=pool, _get=pool.get, _new=object.__new__, _keyed=_keyed_ref, _drop=_dropper(pool), _lock=_LOCK)
        key = "_key(" + ", ".join(fields) + ")" if "_key" in dir(cls) else "(" + ", ".join(fields) + ",)"
        if "_key" in dir(cls):
            env["_key"] = cls._key
        lines = [
            f"def __new__(cls, {', '.join(params)}):",
            *body,
            f"key = {key}",
            "ref = _get(key)",
            "if ref is not None:",
            "    self = ref()",
            "    if self is not None: return self",
            *([f"if {plain}: return _with_expressions(cls, {', '.join(fields)})"] if plain else []),
            "self = _new(cls)",
            *fill,
            "fresh = _keyed(self, _drop)",
            "fresh.key = key",
            # When two threads build the same node, both get the one that is entered first.
            "with _lock:",
            "    kept = _get(key)",
            "    other = None if kept is None else kept()",
            "    if other is not None: return other",
            "    _pool[key] = fresh",
            "return self",
        ]
    else:
        again = f"if {plain}: {', '.join(fields)}, = _converted_fields(type(self), {', '.join(fields)})"
        lines = [f"def __init__(self, {', '.join(params)}):", *body, *([again] if plain else []), *fill]
    source = lines[0] + "\n" + "\n".join("    " + line for line in lines[1:])
    exec(compile(source, f"<constructor of {cls.__name__}>", "exec"), env)
    made = env["__new__" if interned else "__init__"]
    made.__qualname__ = f"{cls.__name__}.{made.__name__}"
    setattr(cls, made.__name__, made)
    if interned:
        cls.__init__ = object.__init__  # a base's generated one must not run on a node from the pool


class _keyed_ref(weakref.ref[Any]):
    __slots__ = ("key",)
    key: Any


def _dropper(pool: dict[Any, weakref.ref[Any]]) -> Callable[[Any], None]:
    # Held here, since nodes still die when the interpreter shuts down and takes the module apart.
    lock = _LOCK

    def drop(ref: Any) -> None:
        with lock:
            # Another thread may have put a new node under this key already.
            gone = pool.pop(ref.key) if pool.get(ref.key) is ref else None
        # The last reference to the key, and so to the children, goes outside the lock.
        del gone

    return drop


# Reentrant: a node may die, and its entry go, while the same thread enters another one.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def float_key(value: float) -> bytes:
    """Bits of a float: tells 0.0 from -0.0 and makes a NaN equal to itself."""
    return struct.pack("<d", value)


class ScriptPrinter(Protocol):
    """What the printer package registers so that any node can print itself."""

    def script(self, node: Any, options: Mapping[str, Any]) -> str:
        """The text of `node`."""
        ...

    def show(self, node: Any, options: Mapping[str, Any]) -> None:
        """Print `node` for a person."""
        ...

    def html(self, node: Any) -> str:
        """Markup for notebooks."""
        ...


class _PrinterSlot:
    printer: ScriptPrinter | None = None


def register_printer(printer: ScriptPrinter) -> None:
    """Install the printer; called once, when `tscript.printer` is imported."""
    _PrinterSlot.printer = printer


def _printer() -> ScriptPrinter:
    if _PrinterSlot.printer is None:
        raise InternalError("the printer is not loaded; import tscript first")
    return _PrinterSlot.printer


class Scriptable:
    """What prints as script: `script()`, `show()`, `str()`, and markup in notebooks."""

    __slots__ = ()

    def script(self, **options: Any) -> str:
        """The program text; options are those of `tscript.printer.PrintOptions`.

        >>> import tscript
        >>> (tscript.tir.Var("n", "int32") + 1).script()
        'n + 1'
        """
        return _printer().script(self, options)

    def show(self, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
        """Print highlighted text (markup in a notebook, plain text into a pipe)."""
        _printer().show(self, {"style": style, "black_format": black_format, **options})

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return self.script()

    def _repr_html_(self) -> str:
        return _printer().html(self)


class Node(Scriptable, metaclass=NodeMeta):
    """Base of everything in the IR. Immutable; compared by identity (see `structural_equal`)."""

    __slots__: ClassVar[tuple[str, ...]] = ("__weakref__",)
    _fields: ClassVar[tuple[str, ...]] = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{type(self).__name__}.{name} cannot be changed: IR nodes are immutable; "
            f"use node.replace({name}=...) to get a changed copy"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted: IR nodes are immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, f) for f in self._fields)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def same_as(self, other: object) -> bool:
        """Whether both are the same object."""
        return self is other

    def replace(self, **changes: Any) -> Any:
        """A copy with some fields changed; the same object when nothing changes."""
        cls = type(self)
        unknown = [k for k in changes if k not in self._fields]
        if unknown:
            raise TypeError(f"{cls.__name__} has no field {unknown[0]!r}; it has {', '.join(self._fields)}")
        if all(getattr(self, k) is v for k, v in changes.items()):
            return self
        return cls(**{f: changes[f] if f in changes else getattr(self, f) for f in self._fields})


def nodes_below(root: Any) -> list[Node]:
    """Every node that `root` (a node, or a tuple or dict of nodes) consists of, itself included, each once.

    Each comes after all that it refers to, types, buffers and the shapes of buffers among them.
    """
    found: dict[Node, None] = {}
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        value, done = stack.pop()
        if done:
            found[value] = None
        elif isinstance(value, Node):
            if value not in found:
                stack.append((value, True))
                stack.extend((getattr(value, f), False) for f in reversed(type(value)._fields))  # pyright: ignore[reportPrivateUsage]
        elif isinstance(value, (tuple, list)):
            stack.extend((v, False) for v in reversed(value))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        elif isinstance(value, Mapping):
            for k, v in reversed(list(value.items())):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                stack += [(v, False), (k, False)]
    return list(found)
