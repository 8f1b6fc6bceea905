"""Programs as JSON text and back, with everything that is shared kept shared.

The text lists the nodes of the graph, each after those it refers to, so variables and buffers keep their
identity and depth is no limit. Values that JSON has no exact form for are tagged objects:

| JSON | value |
|---|---|
| `{"ref": 3}` | node 3 of the list |
| `{"float": "0x1.8p+1"}` | a float, exactly; also `"nan"`, `"inf"`, `"-inf"` |
| `[...]`, `{"list": [...]}` | a tuple, a list |
| `{"map": [[key, value], ...]}` | a mapping |
| `{"array": {"dtype": ..., "shape": [...], "base64": ...}}` | a NumPy array |
| `{"scalar": {...}}` | a NumPy scalar, in the form of an array |
| `{"span": [file, line, column, end_line, end_column]}` | a source position |
| `{"object": [class, text]}` | an object of a class that another package registered |

Loading builds nodes by their constructors and checks the kind of every field, so what loads has the form of a
program (`verify_well_formed` tells whether it is one).
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tscript.ir.base import FrozenDict, Node, nodes_below
from tscript.ir.buffer import Buffer
from tscript.ir.expr import Op, Range, SizeVar, Type, Var
from tscript.ir.foreign import find_foreign, require_foreign
from tscript.ir.functor import NODE_CLASSES
from tscript.ir.semantics import NUMPY_TYPES
from tscript.support.errors import TScriptError
from tscript.support.span import Span
from tscript.support.wording import kind_of

FORMAT: Final = "tscript.ir"
VERSION: Final = 1


class LoadError(TScriptError, ValueError):
    """A text that is no saved program: says where it is wrong, and how."""


# -- saving ---------------------------------------------------------------------------------------


def save_json(node: Any, spans: bool = True) -> str:
    """The JSON text of a node (or of a tuple or dict of nodes); `spans=False` leaves source positions out.

    Raises TypeError for an annotation of a type that has no text form.

    >>> load_json(save_json(Var("n") + 1)).dtype
    'int32'
    """
    below = nodes_below(node)
    numbers = {n: i for i, n in enumerate(below)}
    nodes = [_node_record(n, numbers, spans) for n in below]
    head = {"format": FORMAT, "version": VERSION, "root": _encode(node, numbers, spans), "nodes": nodes}
    return json.dumps(head, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _node_record(n: Node, numbers: Mapping[Node, int], spans: bool) -> dict[str, Any]:
    cls = type(n)
    if _class_named(cls.__name__) is not cls:
        raise TypeError(f"a {cls.__name__} cannot be saved: it is no node class of the compiler")
    if isinstance(n, Op):
        return {"class": "Op", "name": n.name}
    record: dict[str, Any] = {"class": cls.__name__}
    for f in cls._fields:  # pyright: ignore[reportPrivateUsage]
        if f == "span" and not spans:
            continue
        value = getattr(n, f)
        if f == "span" and value is None:
            continue
        record[f] = _encode(value, numbers, spans)
    return record


def _encode(value: Any, numbers: Mapping[Node, int], spans: bool) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Node):
        return {"ref": numbers[value]}
    if isinstance(value, np.generic):
        return {"scalar": _array(np.asarray(value))}  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, float):
        return {"float": value.hex() if value - value == 0 else repr(value)}
    if isinstance(value, tuple):
        return [_encode(v, numbers, spans) for v in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return {"list": [_encode(v, numbers, spans) for v in value]}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mapping):
        items: list[tuple[Any, Any]] = list(value.items())  # pyright: ignore[reportUnknownArgumentType]
        return {"map": [[_encode(k, numbers, spans), _encode(v, numbers, spans)] for k, v in items]}
    if isinstance(value, np.ndarray):
        return {"array": _array(value)}  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, Span):
        return {"span": [value.file, value.line, value.column, value.end_line, value.end_column]}
    foreign = find_foreign(value)
    if foreign is not None:
        return {"object": [foreign.name, foreign.save(value)]}
    raise TypeError(f"{kind_of(value)} in the program has no JSON form; store a number, a text or a node")


def _array(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    name = value.dtype.name
    if name not in NUMPY_TYPES:
        raise TypeError(f"an array of {name} cannot be saved")
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    data = base64.b64encode(little.tobytes()).decode("ascii")
    return {"dtype": name, "shape": list(value.shape), "base64": data}


# -- loading --------------------------------------------------------------------------------------


def load_json(text: str | bytes) -> Any:
    """The node (or tuple or dict of nodes) that `save_json` wrote.

    Raises LoadError, a ValueError, for any other text.
    """
    try:
        head = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as e:
        raise LoadError(f"the text is no JSON: {e.msg} at line {e.lineno}, column {e.colno}") from None
    except UnicodeDecodeError as e:
        raise LoadError(f"the text is not UTF-8: byte {e.start} cannot be read") from None
    except RecursionError:
        raise LoadError("the text is no saved program: it nests too deeply") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:  # pyright: ignore[reportUnknownMemberType]
        raise LoadError(f'the text is JSON but no saved program: it lacks "format": "{FORMAT}"')
    table: dict[str, Any] = head  # pyright: ignore[reportUnknownVariableType]
    version = table.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise LoadError(
            f"the program is saved in version {version!r} of the format; this version reads up to {VERSION}"
        )
    records = table.get("nodes")
    if not isinstance(records, list) or "root" not in table:
        raise LoadError("the saved program is cut short: it has no list of nodes or no root")
    nodes: list[Node] = []
    for i, record in enumerate(records):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        nodes.append(_load_node(i, record, nodes))
    return _guarded("the root", lambda: _decode(table["root"], nodes))


def _refuse_constant(name: str) -> Any:
    raise LoadError(f'the text holds {name}, which JSON does not know; floats are written as {{"float": ...}}')


_BUILD_ERRORS: Final = (
    TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError, ArithmeticError, RecursionError,
)  # fmt: skip


def _guarded(what: str, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except LoadError as e:
        raise LoadError(f"{what}: {e}") from None
    except _BUILD_ERRORS as e:
        reason = f"{e.args[0]!r} is not known" if isinstance(e, KeyError) and e.args else str(e)
        raise LoadError(f"{what}: {reason}") from e


def _load_node(i: int, record: Any, nodes: list[Node]) -> Node:
    if not isinstance(record, dict) or not isinstance(record.get("class"), str):  # pyright: ignore[reportUnknownMemberType]
        raise LoadError(f'node {i} is no object with the name of a class under "class"')
    fields: dict[str, Any] = dict(record)  # pyright: ignore[reportUnknownArgumentType]
    name = fields.pop("class")
    return _guarded(f"node {i} ({name})", lambda: _build(name, fields, nodes))


def _build(name: str, encoded: dict[str, Any], nodes: list[Node]) -> Node:
    cls = _class_named(name)
    if cls is None:
        raise LoadError("there is no such node class")
    fields = {f: _decode(v, nodes) for f, v in encoded.items()}
    if cls is Op:
        return Op.get(fields["name"])
    info: dict[str, tuple[str, Any]] = getattr(cls, "_field_info")  # noqa: B009
    known: tuple[str, ...] = cls._fields  # pyright: ignore[reportPrivateUsage]
    for f, value in fields.items():
        if f not in known:
            raise LoadError(f"it has no field {f!r}; its fields are {', '.join(known)}")
        if not _fits(value, info[f][0]):
            raise LoadError(f"its field {f!r} is {kind_of(value)}, not a {info[f][0]}")
    special = _BUILDERS.get(cls)
    return special(cls, fields) if special is not None else cls(**fields)


_BUILDERS: Final[dict[type[Node], Callable[[Any, dict[str, Any]], Node]]] = {
    Var: lambda cls, f: cls(f["name"], f["type_annotation"]),
    SizeVar: lambda cls, f: cls(f["name"], f["type_annotation"]),
    Range: lambda _, f: Range.from_min_extent(f["min"], f["extent"]),
}


def _decode(value: Any, nodes: list[Node]) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, list):
        return tuple(_decode(v, nodes) for v in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, float):
        raise LoadError(f'the number {value!r} stands bare; floats are written as {{"float": ...}}')
    if not isinstance(value, dict) or len(value) != 1:  # pyright: ignore[reportUnknownArgumentType]
        raise LoadError('a value is an object with a single tag, such as {"ref": 0}')
    ((tag, body),) = value.items()  # pyright: ignore[reportUnknownVariableType]
    decoder = _DECODERS.get(tag)  # pyright: ignore[reportUnknownArgumentType]
    if decoder is None:
        raise LoadError(f"the tag {tag!r} is none of {', '.join(_DECODERS)}")
    return decoder(body, nodes)


def _ref(body: Any, nodes: list[Node]) -> Node:
    if type(body) is not int or not 0 <= body < len(nodes):
        raise LoadError(f"it refers to node {body!r}, which does not come before it")
    return nodes[body]


def _float(body: Any, nodes: list[Node]) -> float:
    del nodes
    if body in ("nan", "inf", "-inf"):
        return float(body)
    return float.fromhex(body)


def _map(body: Any, nodes: list[Node]) -> FrozenDict:
    return FrozenDict({_decode(k, nodes): _decode(v, nodes) for k, v in body})


def _load_array(body: Any, nodes: list[Node]) -> np.ndarray[Any, Any]:
    del nodes
    kind = NUMPY_TYPES[body["dtype"]]
    shape = tuple(body["shape"])
    if not all(type(s) is int and s >= 0 for s in shape):
        raise LoadError(f"the shape {shape!r} of an array is not made of sizes")
    try:
        data = base64.b64decode(body["base64"], validate=True)
    except binascii.Error as e:
        raise LoadError(f"the data of an array are no base64: {e}") from None
    need = kind.itemsize * int(np.prod(shape, dtype=object))
    if len(data) != need:
        raise LoadError(f"an array of shape {shape} has {len(data)} bytes instead of {need}")
    return np.frombuffer(data, kind).reshape(shape).copy()


def _object(body: Any, nodes: list[Node]) -> Any:
    del nodes
    name, text = body
    if not isinstance(text, str):
        raise LoadError(f"an object of the class {name!r} is saved as text")
    return require_foreign(name).load(text)


_DECODERS: Final[dict[str, Callable[[Any, list[Node]], Any]]] = {
    "ref": _ref,
    "float": _float,
    "list": lambda body, nodes: [_decode(v, nodes) for v in body],
    "map": _map,
    "array": _load_array,
    "scalar": lambda body, nodes: _load_array(body, nodes)[()],
    "span": lambda body, _: _span(*body),
    "object": _object,
}


def _span(file: Any, *numbers: Any) -> Span:
    if not isinstance(file, str) or len(numbers) != 4 or any(type(n) is not int for n in numbers):
        raise LoadError("a source position is a file and four numbers")
    return Span(file, *numbers)


def _class_named(name: str) -> type[Node] | None:
    """The node class of that name; classes of other packages of the compiler count once they are loaded."""
    found = NODE_CLASSES.get(name)
    if found is not None:
        return found
    stack: list[type[Node]] = [Node]
    while stack:
        cls = stack.pop()
        if cls.__name__ == name and cls.__module__.split(".")[0] == Node.__module__.split(".")[0]:
            return cls
        stack += cls.__subclasses__()
    return None


# -- kinds of fields ------------------------------------------------------------------------------

_PLAIN: Final[dict[str, type | tuple[type, ...]]] = {
    "int": int,
    "str": str,
    "DataType": str,
    "None": type(None),
    "Span": Span,
    "Attrs": Mapping,
    "Type": Type,
    "Buffer": Buffer,
}


def _fits(value: Any, annotation: str) -> bool:
    """Whether a value has the kind that the annotation of a field names; `Any` and what is not known fit all."""
    return any(check(value) for check in _checks(annotation))


@functools.cache
def _checks(annotation: str) -> tuple[Callable[[Any], bool], ...]:
    return tuple(_check_for(part.strip()) for part in annotation.split("|"))


def _check_for(part: str) -> Callable[[Any], bool]:
    if part.startswith("tuple["):
        inner = _check_for(part.removeprefix("tuple[").removesuffix("]").split(",")[0].strip())
        return lambda v: isinstance(v, tuple) and all(map(inner, v))  # pyright: ignore[reportUnknownArgumentType]
    if part.startswith("dict["):
        key, item = (_check_for(p.strip()) for p in part.removeprefix("dict[").removesuffix("]").split(","))
        return lambda v: isinstance(v, Mapping) and all(key(k) and item(x) for k, x in v.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    kinds = _PLAIN.get(part) or _class_named(part)
    if kinds is None:
        return lambda _: True
    if part == "int":
        return lambda v: isinstance(v, int) and not isinstance(v, bool)
    return lambda v: isinstance(v, kinds)


__all__ = ["LoadError", "load_json", "save_json"]
