"""Configurations of targets: read from text and JSON, tags resolved, values checked and given their types."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from tscript.ir.expr import FloatImm, IntImm, StringImm
from tscript.target.kinds import KINDS, OptionType, TargetKind
from tscript.target.tags import TAGS

STRUCTURE: Final = ("kind", "tag", "keys", "host")
"""Parts of a configuration that are no attributes."""

_TYPE_NAMES: Final[dict[OptionType, str]] = {"list": "list of texts", "targets": "list of targets"}
_EXAMPLES: Final[dict[OptionType, str]] = {"int": "4", "str": "name", "list": "a,b", "targets": "[...]"}


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """Names close to `name`, as a half sentence in parentheses; empty when none is close.

    >>> suggestion("lvm", ["llvm", "cuda"])
    " (did you mean 'llvm'?)"
    """
    names = list(candidates)
    close = difflib.get_close_matches(name, names, 3)
    last = name.split("/")[-1]
    close += [n for n in names if len(last) > 2 and last in n and n not in close][: 3 - len(close)]
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


def find_kind(name: str) -> TargetKind:
    """The kind called `name`. Raises ValueError, listing close matches, for any other name."""
    kind = KINDS.get(name)
    if kind is None:
        raise ValueError(f"unknown target kind {name!r}; choose from {', '.join(KINDS)}{suggestion(name, KINDS)}")
    return kind


def find_tag(name: str) -> dict[str, Any]:
    """The configuration that a tag stands for. Raises ValueError, listing close matches, for an unknown one."""
    config = TAGS.get(name)
    if config is None:
        hint = suggestion(name, TAGS) or "; tscript.target.tag.list_tags() lists all"
        raise ValueError(f"unknown target tag {name!r}{hint}")
    return config


def read_config(target: str | Mapping[str, Any]) -> dict[str, Any]:
    """A target's configuration with its kind, from text, JSON text or a mapping; tags are filled in.

    Raises ValueError for what is no target, TypeError for a value of another class.
    """
    if isinstance(target, str):
        config = _read_json(target) if target.lstrip().startswith("{") else _read_text(target)
    elif isinstance(target, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        config = {_plain(key): value for key, value in target.items()}
    else:
        raise TypeError(f"a target is text, a mapping or another target, not {type(target).__name__}")
    tag = _plain(config.get("tag"))
    if config.get("kind") is None and tag:
        # The tag gives the whole target; what stands beside it changes single attributes.
        config = {**find_tag(tag), **{k: v for k, v in config.items() if k != "kind"}}
    kind = _plain(config.get("kind"))
    if not isinstance(kind, str):
        raise ValueError("a target needs a kind, such as 'llvm' or 'cuda', or a tag")
    return {**config, "kind": kind}


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [k for k, _ in pairs]
        raise ValueError(f"{next(k for k in names if names.count(k) > 1)!r} is given twice in the JSON of a target")
    return found


def _read_json(text: str) -> dict[str, Any]:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as e:
        raise ValueError(f"the target {text!r} is no valid JSON: {e}") from None


def _read_text(text: str) -> dict[str, Any]:
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise ValueError(f"the target {text!r} cannot be read: {str(e).lower()}") from None
    if not words:
        raise ValueError("the target is empty; write for example 'llvm'")
    if words[0] in TAGS or "/" in words[0]:
        config = {"tag": words[0]}
        kind = find_kind(find_tag(words[0])["kind"])
    else:
        kind = find_kind(words[0])
        config = {"kind": kind.name}
    i = 1
    while i < len(words):
        word = words[i]
        i += 1
        key, eq, value = word.removeprefix("-").removeprefix("-").partition("=")
        if not word.startswith("-") or not key:
            raise ValueError(f"in target {text!r}: {word!r} is no attribute; write -name=value")
        want = kind.options.get(key)
        if not eq and want != "bool" and i < len(words) and not words[i].startswith("-"):
            value, i = words[i], i + 1
        elif not eq:
            if want in ("str", "list", "targets"):
                raise ValueError(f"in target {text!r}: -{key} needs a value, as in -{key}={_EXAMPLES[want]}")
            value = "1"
        if key in config:
            raise ValueError(f"in target {text!r}: {key!r} is given twice")
        config[key] = value
    return config


# -- values ---------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Constants of programs as the Python values they hold: targets stand in attributes of functions."""
    if isinstance(value, IntImm):
        return bool(value.value) if value.dtype.is_bool else value.value
    if isinstance(value, (FloatImm, StringImm)):
        return value.value
    return value


def _read_int(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read_bool(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"0": False, "1": True, "false": False, "true": True}.get(value.lower())
    return bool(value) if isinstance(value, int) and value in (0, 1) else None


def _read_str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _read_list(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return tuple(v for v in value.split(",") if v)
    if not isinstance(value, (list, tuple)):
        return None
    items: list[Any] = [_plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    # A comma separates elements in the text form, so no element holds one.
    return tuple(w for v in items for w in v.split(",") if w) if all(isinstance(v, str) for v in items) else None


def _read_targets(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, str) and value.startswith("["):
        value = json.loads(value)
    return tuple(value) if isinstance(value, (list, tuple)) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


_READERS: Final[dict[OptionType, Callable[[Any], Any]]] = {
    "int": _read_int, "bool": _read_bool, "str": _read_str, "list": _read_list, "targets": _read_targets,
}  # fmt: skip


def read_value(kind: TargetKind, key: str, value: Any) -> Any:
    """The value of an attribute, as its type wants it.

    Raises ValueError for an unknown attribute, a value of the wrong type, or one out of range.
    """
    want = kind.options.get(key)
    if want is None:
        known = f"it has: {', '.join(sorted(kind.options))}"
        raise ValueError(f"target kind {kind.name!r} has no attribute {key!r}{suggestion(key, kind.options)}; {known}")
    value = _plain(value)
    try:
        read = _READERS[want](value)
    except json.JSONDecodeError:
        read = None
    if read is None:
        name = _TYPE_NAMES.get(want, want)
        raise ValueError(f"attribute {key!r} of target kind {kind.name!r} takes a value of type {name}, not {value!r}")
    check = _CHECKS.get((kind.name, key), _CHECKS.get(key))
    problem = check(read) if check is not None else ""
    if problem:
        raise ValueError(f"attribute {key!r} of target kind {kind.name!r} is {value!r}, but {problem}")
    return read


def _check_features(features: tuple[str, ...]) -> str:
    bad = next((f for f in features if f[0] not in "+-" or len(f) < 2), None)
    return "" if bad is None else f"{bad!r} neither switches a feature on (+{bad}) nor off (-{bad})"


_CHECKS: Final[dict[str | tuple[str, str], Callable[[Any], str]]] = {
    "num-cores": lambda n: "" if n >= 1 else "there is at least 1 core",
    "mattr": _check_features,
    ("llvm", "opt-level"): lambda n: "" if 0 <= n <= 3 else "levels are 0, 1, 2 and 3",
    ("llvm", "vector-width"): lambda n: "" if n in (64, 128, 256, 512) else "vectors have 64, 128, 256 or 512 bits",
    ("cuda", "arch"): lambda a: "" if re.fullmatch(r"(sm_\d+\w?)?", a) else "it is written like sm_90",
}


def value_text(value: Any) -> str:
    """A value as it stands in the text form of a target."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        texts = all(isinstance(v, str) for v in items)
        value = ",".join(items) if texts else json.dumps([v.export() for v in items], sort_keys=True)
    text = str(value)
    return shlex.quote(text) if re.search(r"[\s'\"\\]", text) else text


__all__ = ["STRUCTURE", "find_kind", "find_tag", "read_config", "read_value", "suggestion", "value_text"]
