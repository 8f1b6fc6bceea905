"""`Target`: a kind with attribute values, made from text, a dict, JSON or a tag, and used as a context."""

from __future__ import annotations

import contextvars
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn, cast

from tscript.target.config import STRUCTURE, find_kind, read_config, read_value, value_text
from tscript.target.detect import core_count, cuda_attributes, host_processor
from tscript.target.kinds import KINDS, TargetKind
from tscript.target.processors import PROCESSORS

_current: contextvars.ContextVar[tuple[Target, ...]] = contextvars.ContextVar("tscript_target", default=())

_ARM: Final = re.compile(r"(aarch64|arm)")
_DEVICE: Final = re.compile(r"(\w+)(?:[:(](\d+)\)?)?")


class Target:
    """What to generate code for.

    Made from text (`"llvm -mcpu=skylake-avx512 -num-cores=4"`), a dict (`{"kind": "llvm", "num-cores": 4}`),
    JSON text, a tag (`"nvidia/geforce-rtx-4090"`), a tag with changes (`"nvidia/nvidia-a100 -arch=sm_90"`), or
    another target. `host` is the target of the code that starts the kernels.

    Attributes: `kind`; `keys`, the most specific first; `attrs`, the values of options, numbers as ints and
    lists as tuples; `host`, a target or None; `tag`, empty without one. A target never changes. Two are equal
    when kind, keys, attributes and host are; the tag is only a name. In an `llvm` target without `mcpu` the
    CPU is the one that runs the build.

    Raises ValueError for an unknown kind, tag or attribute (with close matches), a value of the wrong type,
    or an attribute given twice; TypeError for an argument that is none of the above.

    >>> t = Target("llvm -mattr=+avx2 -num-cores=4", host="llvm")
    >>> t.kind.name, t.attrs["num-cores"], t.mattr, t.keys
    ('llvm', 4, ['+avx2'], ('cpu',))
    >>> str(Target("nvidia/tesla-p100").with_host("llvm").host)
    'llvm -keys=cpu'
    """

    __slots__ = ("__weakref__", "_json", "attrs", "host", "keys", "kind", "tag")

    kind: TargetKind
    keys: tuple[str, ...]
    attrs: Mapping[str, Any]
    host: Target | None
    tag: str

    def __init__(
        self, target: str | Mapping[str, Any] | Target, host: str | Mapping[str, Any] | Target | None = None
    ) -> None:
        if isinstance(target, Target):
            self._set(target.kind, target.keys, target.attrs, target.host, target.tag, host)
            return
        config = read_config(target)
        kind = find_kind(config["kind"])
        attrs = {key: read_value(kind, key, value) for key, value in config.items() if key not in STRUCTURE}
        if "devices" in attrs:
            attrs["devices"] = tuple(Target(d) for d in attrs["devices"])
        if "from_device" in attrs:
            attrs = {**_device_attributes(kind, attrs["from_device"]), **attrs}
        attrs = {**kind.defaults, **attrs}
        own_host = config.get("host")
        self._set(
            kind,
            _keys(kind, attrs, config.get("keys")),
            MappingProxyType({key: attrs[key] for key in sorted(attrs)}),
            None if own_host is None else Target(own_host),
            str(read_value(kind, "tag", config.get("tag") or "")),
            host,
        )

    def _set(
        self, kind: TargetKind, keys: tuple[str, ...], attrs: Mapping[str, Any], own_host: Target | None, tag: str,
        host: str | Mapping[str, Any] | Target | None,
    ) -> None:  # fmt: skip
        chosen = own_host if host is None else Target(host)
        if chosen is not None and chosen.kind.device != "cpu":
            raise ValueError(f"the host of a target is a CPU, such as 'llvm', not {chosen.kind.name!r}")
        for name, value in (("kind", kind), ("keys", keys), ("attrs", attrs), ("host", chosen), ("tag", tag)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a target never changes, so {name!r} cannot be set; make another target")

    # -- reading ---------------------------------------------------------------------------------

    def get_attr(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, or `default`."""
        return self.attrs.get(name, default)

    def get_kind_attr(self, name: str) -> Any:
        """What the kind itself says: "name", "device", "device_type", "keys", "options" or "defaults".

        >>> Target("cuda").get_kind_attr("device_type")
        2
        """
        names = ("name", "device", "device_type", "keys", "options", "defaults")
        if name not in names:
            raise ValueError(f"a target kind does not tell {name!r}; choose from {', '.join(names)}")
        return getattr(self.kind, name)

    def get_target_device_type(self) -> int:
        """DLPack's number of the device that the code runs on: 1 for the CPU, 2 for CUDA, ..."""
        return int(self.attrs.get("target_device_type", self.kind.device_type))

    def _text(self, name: str, default: str = "") -> str:
        return str(self.attrs.get(name, default))

    def _number(self, name: str, default: int | None = None) -> int:
        value = self.attrs.get(name, default)
        if value is None:
            raise AttributeError(f"the target {str(self)!r} does not tell {name}; give it as -{name}=...")
        return int(value)

    @property
    def arch(self) -> str:
        """The GPU architecture, such as `sm_90`; empty: that of the GPU at hand."""
        return self._text("arch")

    @property
    def mcpu(self) -> str:
        """The CPU to generate code for; empty: the one at hand."""
        return self._text("mcpu")

    @property
    def mattr(self) -> list[str]:
        """CPU features switched on (`+avx2`) or off (`-avx512f`)."""
        return list(self.attrs.get("mattr", ()))

    @property
    def mtriple(self) -> str:
        """Architecture and system, such as `aarch64-linux-gnu`; empty: those at hand."""
        return self._text("mtriple")

    @property
    def model(self) -> str:
        """The model of the device, or "unknown"."""
        return self._text("model", "unknown")

    @property
    def device_name(self) -> str:
        """The name that the device gives itself, or an empty text."""
        return self._text("device_name")

    @property
    def libs(self) -> list[str]:
        """Libraries that generated code may call."""
        return list(self.attrs.get("libs", ()))

    @property
    def max_num_threads(self) -> int:
        """Threads in a thread block, at most. Raises AttributeError where the target does not tell."""
        return self._number("max_num_threads")

    @property
    def max_block_size_x(self) -> int:
        """Threads of a block along x, at most. Raises AttributeError where the target does not tell."""
        return self._number("max_block_size_x", self.attrs.get("max_num_threads"))

    @property
    def max_block_size_y(self) -> int:
        """Threads of a block along y, at most. Raises AttributeError where the target does not tell."""
        return self._number("max_block_size_y", self.attrs.get("max_num_threads"))

    @property
    def thread_warp_size(self) -> int:
        """Threads that run in step. Raises AttributeError where the target does not tell."""
        return self._number("thread_warp_size")

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory of a block. Raises AttributeError where the target does not tell."""
        return self._number("max_shared_memory_per_block")

    @property
    def max_function_args(self) -> int:
        """Arguments of a kernel, at most; 0 where there is no limit."""
        return self._number("max_function_args", 0)

    @property
    def vtcm_capacity(self) -> int:
        """Bytes of tightly coupled memory, or 0."""
        return self._number("vtcm-capacity", 0)

    @property
    def l2_cache_size_bytes(self) -> int:
        """Bytes of the second-level cache; 0 where the target does not tell."""
        return self._number("l2_cache_size_bytes", 0)

    @property
    def supports_integer_dot_product(self) -> bool:
        """Whether the device multiplies and adds four small integers at once."""
        digits = re.match(r"sm_(\d+)", self.arch)
        return bool(self.attrs.get("supports_integer_dot_product", digits is not None and int(digits[1]) >= 61))

    @property
    def supports_cooperative_matrix(self) -> bool:
        """Whether the device multiplies small matrices by several threads together."""
        return bool(self.attrs.get("supports_cooperative_matrix", False))

    @property
    def features(self) -> frozenset[str]:
        """Features of the CPU in LLVM's names: those of `mcpu` that are known here, as `mattr` changes them.

        Without `mcpu` and `mtriple` they are the features of this machine's CPU. Empty for GPUs.

        >>> "avx512vnni" in Target("llvm -mcpu=cascadelake").features
        True
        >>> sorted(Target("llvm -mcpu=x86-64 -mattr=+avx,-sse2").features)
        ['avx', 'sse']
        """
        found: set[str] = set(PROCESSORS.get(self.mcpu, ()))
        if self.kind.name == "llvm" and not self.mcpu and not self.mtriple:
            found |= host_processor()[1]
        for change in self.mattr:
            (found.add if change[0] == "+" else found.discard)(change[1:])
        return frozenset(found)

    # -- writing ---------------------------------------------------------------------------------

    def with_host(self, host: str | Mapping[str, Any] | Target) -> Target:
        """The same target with another host."""
        return Target(self, host)

    def export(self) -> dict[str, Any]:
        """A dict of plain values from which `Target` makes an equal target.

        >>> Target("cuda -arch=sm_90").export()["arch"]
        'sm_90'
        """
        config: dict[str, Any] = {"kind": self.kind.name, "tag": self.tag, "keys": list(self.keys)}
        for key, value in self.attrs.items():
            if isinstance(value, tuple):
                items = cast("tuple[Any, ...]", value)
                config[key] = [v.export() if isinstance(v, Target) else v for v in items]
            else:
                config[key] = value
        if self.host is not None:
            config["host"] = self.host.export()
        return config

    def to_json(self) -> str:
        """`export()` as JSON text; `Target` reads it."""
        return json.dumps(self.export(), sort_keys=True)

    def identity(self) -> str:
        """A text that equal targets share: `to_json()` without tags."""
        known: str | None = getattr(self, "_json", None)
        if known is None:
            known = json.dumps(_without_tags(self.export()), sort_keys=True)
            object.__setattr__(self, "_json", known)
        return known

    def __str__(self) -> str:
        keys = [f"-keys={','.join(self.keys)}"] if self.keys or self.kind.keys else []
        attrs = [f"-{key}={value_text(value)}" for key, value in self.attrs.items()]
        return " ".join([self.kind.name, *keys, *attrs])

    def __repr__(self) -> str:
        host = "" if self.host is None else f", host={str(self.host)!r}"
        return f"Target({str(self)!r}{host})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and (self is other or self.identity() == other.identity())

    def __hash__(self) -> int:
        return hash(self.identity())

    def __reduce__(self) -> tuple[Any, ...]:
        return Target, (self.export(),)

    # -- context ---------------------------------------------------------------------------------

    def __enter__(self) -> Target:
        _current.set((*_current.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.set(_current.get()[:-1])

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with target:`; None outside of any, or ValueError if that is not allowed.

        >>> with Target("llvm -num-cores=2"):
        ...     print(Target.current())
        llvm -keys=cpu -num-cores=2
        """
        stack = _current.get()
        if stack:
            return stack[-1]
        if allow_none:
            return None
        raise ValueError("there is no current target; pass one, or use `with Target('llvm'):`")

    @staticmethod
    def target_or_current(target: str | Mapping[str, Any] | Target | None) -> Target:
        """The target given, or else the current one. Raises ValueError when there is neither."""
        found = Target.canon_target(target) or Target.current(allow_none=False)
        assert found is not None
        return found

    @staticmethod
    def canon_target(target: str | Mapping[str, Any] | Target | None) -> Target | None:
        """`target` as a Target; None stays None."""
        return target if target is None or isinstance(target, Target) else Target(target)

    @staticmethod
    def list_kinds() -> list[str]:
        """Names of all kinds.

        >>> Target.list_kinds()[:3]
        ['llvm', 'c', 'cuda']
        """
        return list(KINDS)

    @staticmethod
    def from_device(device: object) -> Target:
        """The target of a device at hand: "cuda", "cuda:1", "cpu", or a device of the runtime.

        Raises ValueError for a device that is not there, or of another kind.

        >>> Target.from_device("cpu").attrs["num-cores"] >= 1
        True
        """
        match = _DEVICE.fullmatch(str(device))
        kind = {"cpu": "llvm", "llvm": "llvm", "cuda": "cuda"}.get(match[1]) if match else None
        if match is None or kind is None:
            raise ValueError(f"a target can be made from the devices 'cpu' and 'cuda', not from {str(device)!r}")
        return Target({"kind": kind, **_device_attributes(KINDS[kind], int(match[2] or 0))})


def _device_attributes(kind: TargetKind, index: int) -> dict[str, Any]:
    if kind.name == "cuda":
        return cuda_attributes(index)
    if kind.name == "llvm" and index == 0:
        return {"num-cores": core_count()}
    raise ValueError(f"a device {index} of kind {kind.name!r} cannot be asked for its attributes")


def _keys(kind: TargetKind, attrs: Mapping[str, Any], given: Any) -> tuple[str, ...]:
    """The given keys or those of the kind, with the device in front."""
    keys = list(kind.keys) if given is None else list(read_value(kind, "keys", given))
    if given is None and kind.name == "llvm" and _ARM.match(attrs.get("mtriple", "")):
        keys.insert(0, "arm_cpu")
    if attrs.get("device"):
        keys.insert(0, attrs["device"])
    return tuple(dict.fromkeys(keys))


def _without_tags(config: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in config.items() if key != "tag"}
    if "host" in plain:
        plain["host"] = _without_tags(plain["host"])
    if "devices" in plain:
        plain["devices"] = [_without_tags(d) for d in plain["devices"]]
    return plain


__all__ = ["Target"]
