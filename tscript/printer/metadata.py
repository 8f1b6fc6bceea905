"""Objects with no script form: the text refers to them by number, and may carry them as JSON."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from tscript.ir.base import Node
from tscript.ir.expr import Op, Range, Var
from tscript.ir.functor import NODE_CLASSES


class Metadata:
    """What a printed text refers to as `metadata["key"][i]`."""

    def __init__(self) -> None:
        self.entries: dict[str, list[Any]] = {}

    def add(self, value: Any) -> str:
        """The text that stands for `value`; the same object gets the same number."""
        key = _key(value)
        kept = self.entries.setdefault(key, [])
        for i, other in enumerate(kept):
            if other is value or (isinstance(value, str) and other == value):
                return f'metadata["{key}"][{i}]'
        kept.append(value)
        return f'metadata["{key}"][{len(kept) - 1}]'

    def to_json(self) -> str:
        """All entries as JSON, which `load_json` reads. Raises TypeError for a value of an unknown class."""
        nodes: list[Any] = []
        known: dict[int, int] = {}
        roots = {key: [_encode(v, nodes, known) for v in values] for key, values in sorted(self.entries.items())}
        return json.dumps({"roots": roots, "nodes": nodes})


def _key(value: Any) -> str:
    if isinstance(value, str):
        return "runtime.String"
    if isinstance(value, np.ndarray):
        return "runtime.NDArray"
    return f"{'tir' if isinstance(value, Node) else type(value).__module__.split('.')[0]}.{type(value).__name__}"


def _encode(value: Any, nodes: list[Any], known: dict[int, int]) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.ndarray):
        file = io.BytesIO()
        np.save(file, cast("np.ndarray[Any, Any]", value), allow_pickle=False)
        return {"array": base64.b64encode(file.getvalue()).decode("ascii")}
    if isinstance(value, (tuple, list)):
        return {"tuple": [_encode(v, nodes, known) for v in value]}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mapping):
        return {"dict": [[_encode(k, nodes, known), _encode(v, nodes, known)] for k, v in value.items()]}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Op):
        return {"op": value.name}
    if type(value).__name__ not in NODE_CLASSES:
        raise TypeError(f"a {type(value).__name__} cannot be written as metadata; print without show_meta")
    if id(value) not in known:
        fields = {name: _encode(v, nodes, known) for name, v in _stored_fields(value).items()}
        known[id(value)] = len(nodes)
        nodes.append({"class": type(value).__name__, "fields": fields})
    return {"node": known[id(value)]}


def _stored_fields(value: Node) -> dict[str, Any]:
    if isinstance(value, Var):
        return {"name": value.name, "dtype": value.type_annotation}
    return {f: getattr(value, f) for f in type(value)._fields if f != "span"}  # pyright: ignore[reportPrivateUsage]


def load_json(text: str) -> dict[str, list[Any]]:
    """The entries that `Metadata.to_json` wrote. Raises ValueError for a text that is no such JSON."""
    try:
        data = json.loads(text)
        made: list[Any] = []
        for entry in data["nodes"]:
            cls: Any = NODE_CLASSES[entry["class"]]
            fields = {name: _decode(f, made) for name, f in entry["fields"].items()}
            made.append(_construct(cls, fields))
        return {key: [_decode(v, made) for v in values] for key, values in data["roots"].items()}
    except (KeyError, TypeError, IndexError, AttributeError) as e:
        raise ValueError(f"this is no metadata of a printed program: {e}") from e


def _construct(cls: Any, fields: dict[str, Any]) -> Any:
    if cls is Range:
        return Range.from_min_extent(fields["min"], fields["extent"])
    return cls(**fields)


def _decode(value: Any, made: list[Any]) -> Any:
    if not isinstance(value, dict):
        return value
    kind, content = next(iter(cast("dict[str, Any]", value).items()))
    if kind == "node":
        return made[content]
    if kind == "tuple":
        return tuple(_decode(v, made) for v in content)  # pyright: ignore[reportUnknownVariableType]
    if kind == "dict":
        return {_decode(k, made): _decode(v, made) for k, v in content}  # pyright: ignore[reportUnknownVariableType]
    if kind == "op":
        return Op.get(content)
    return np.load(io.BytesIO(base64.b64decode(content)), allow_pickle=False)
