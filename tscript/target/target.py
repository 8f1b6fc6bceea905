"""`Target`: a kind with attribute values, made from text, a dict or JSON, and used as a context."""

from __future__ import annotations

import contextvars
import difflib
import json
import shlex
from collections.abc import Mapping
from typing import Any

from tscript.target.kinds import KINDS, TargetKind

_current: contextvars.ContextVar[tuple[Target, ...]] = contextvars.ContextVar("tscript_target", default=())


class Target:
    """What to generate code for.

    `Target("llvm -mcpu=skylake-avx512 -num-cores=4")`, `Target({"kind": "llvm", "num-cores": 4})`, a JSON
    text, or another target. Attributes are read from `attrs` (`t.attrs["mcpu"]`). Two targets are equal
    when kind, keys, attributes and host are.

    Raises ValueError for an unknown kind or attribute, a value of the wrong type, or a key given twice.

    >>> Target("llvm -num-cores=4").attrs["num-cores"]
    4
    """

    kind: TargetKind
    keys: tuple[str, ...]
    attrs: Mapping[str, Any]
    host: Target | None

    def __init__(
        self, target: str | Mapping[str, Any] | Target, host: str | Mapping[str, Any] | Target | None = None
    ) -> None:
        if isinstance(target, Target):
            self.kind, self.keys, self.attrs, self.host = target.kind, target.keys, target.attrs, target.host
        else:
            config = _parse_text(target) if isinstance(target, str) else dict(target)
            self._fill(config)
        if host is not None:
            self.host = Target(host)

    def _fill(self, config: dict[str, Any]) -> None:
        name = config.pop("kind", None)
        if not isinstance(name, str):
            raise ValueError("a target needs a kind, such as 'llvm' or 'cuda'")
        self.kind = _find_kind(name)
        host = config.pop("host", None)
        self.host = None if host is None else Target(host)
        attrs = {key: _typed(self.kind, key, value) for key, value in config.items()}
        for key, value in self.kind.defaults.items():
            attrs.setdefault(key, value)
        given = attrs.pop("keys", None)
        keys: list[str] = [attrs["device"]] if "device" in attrs else []
        keys += given if given is not None else self.kind.keys
        self.keys = tuple(dict.fromkeys(keys))
        self.attrs = attrs

    # -- reading ---------------------------------------------------------------------------------

    @property
    def mcpu(self) -> str:
        """The CPU to generate code for, or an empty text for the one at hand."""
        return self.attrs.get("mcpu", "")

    @property
    def mattr(self) -> list[str]:
        """CPU features switched on (`+avx2`) or off (`-avx512f`)."""
        return list(self.attrs.get("mattr", ()))

    @property
    def arch(self) -> str:
        """The GPU architecture, such as `sm_90`, or an empty text."""
        return self.attrs.get("arch", "")

    def get_attr(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, or `default`."""
        return self.attrs.get(name, default)

    def with_host(self, host: str | Target) -> Target:
        """The same target with another host."""
        return Target(self, host)

    def export(self) -> dict[str, Any]:
        """A dict from which `Target` makes an equal target."""
        config: dict[str, Any] = {"kind": self.kind.name, "keys": list(self.keys), **self.attrs}
        if self.host is not None:
            config["host"] = self.host.export()
        return config

    def to_json(self) -> str:
        """`export()` as JSON text."""
        return json.dumps(self.export(), sort_keys=True)

    def __str__(self) -> str:
        parts = [self.kind.name, f"-keys={','.join(self.keys)}"]
        for key in sorted(self.attrs):
            if key != "tag":
                parts.append(f"-{key}={_attr_text(self.attrs[key])}")
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.export() == other.export()

    def __hash__(self) -> int:
        return hash(self.to_json())

    # -- context ---------------------------------------------------------------------------------

    def __enter__(self) -> Target:
        _current.set((*_current.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.set(_current.get()[:-1])

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with target:`; None outside of any, or ValueError if that is not allowed."""
        stack = _current.get()
        if stack:
            return stack[-1]
        if allow_none:
            return None
        raise ValueError("there is no current target; pass one, or use `with Target('llvm'):`")

    @staticmethod
    def list_kinds() -> list[str]:
        """Names of all kinds."""
        return list(KINDS)


def _find_kind(name: str) -> TargetKind:
    kind = KINDS.get(name)
    if kind is None:
        raise ValueError(f"unknown target kind {name!r}; choose from {', '.join(KINDS)}{_suggest(name, KINDS)}")
    return kind


def _suggest(name: str, candidates: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, candidates, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _parse_text(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        try:
            config = json.loads(text)
        except json.JSONDecodeError as e:
            raise ValueError(f"the target {text!r} is no valid JSON: {e}") from None
        return config
    words = shlex.split(text)
    if not words:
        raise ValueError("the target is empty; write for example 'llvm'")
    config: dict[str, Any] = {"kind": words[0]}
    kind = _find_kind(words[0])
    i = 1
    while i < len(words):
        word = words[i]
        i += 1
        if not word.startswith("-"):
            raise ValueError(f"in target {text!r}: {word!r} is no attribute; write -name=value")
        key, eq, value = word.lstrip("-").partition("=")
        is_flag = kind.options.get(key) is bool
        if not eq and not is_flag and i < len(words) and not words[i].startswith("-"):
            value, i = words[i], i + 1
        elif not eq:
            value = "1"
        if key in config:
            raise ValueError(f"in target {text!r}: {key!r} is given twice")
        config[key] = value
    return config


def _typed(kind: TargetKind, key: str, value: Any) -> Any:
    want = kind.options.get(key)
    if want is None:
        known = f"it has: {', '.join(sorted(kind.options))}"
        raise ValueError(f"target kind {kind.name!r} has no attribute {key!r}{_suggest(key, kind.options)}; {known}")
    if want is bool:
        if value in (0, 1, "0", "1", True, False, "true", "false"):
            return value in (1, "1", True, "true")
    elif want is int:
        try:
            return int(value)
        except (TypeError, ValueError):
            pass
    elif want is str:
        if isinstance(value, str):
            return value
    elif isinstance(value, str):
        return [v for v in value.split(",") if v]
    elif isinstance(value, (list, tuple)):
        return [str(v) for v in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    name = "list" if want not in (bool, int, str) else want.__name__
    raise ValueError(f"attribute {key!r} of target kind {kind.name!r} takes a value of type {name}, not {value!r}")


def _attr_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, list):
        return ",".join(str(v) for v in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)
