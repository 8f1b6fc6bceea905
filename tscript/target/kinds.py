"""Target kinds as data: the device they run on, their keys, and the attributes they take with their types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

AttrType = type[int] | type[str] | type[bool] | type[list[str]]

_COMMON: Final[dict[str, AttrType]] = {
    "keys": list[str],
    "tag": str,
    "device": str,
    "model": str,
    "libs": list[str],
}


@dataclass(frozen=True, slots=True)
class TargetKind:
    """A family of targets: `name`, the `device` it runs on, default `keys`, attribute types, default values."""

    name: str
    device: str
    keys: tuple[str, ...]
    options: dict[str, AttrType]
    defaults: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        return self.name


def _kind(
    name: str, device: str, keys: tuple[str, ...], options: dict[str, AttrType], defaults: dict[str, Any] | None = None
) -> TargetKind:
    return TargetKind(name, device, keys, {**_COMMON, **options}, defaults or {})


KINDS: Final[dict[str, TargetKind]] = {
    k.name: k
    for k in (
        _kind(
            "llvm",
            "cpu",
            ("cpu",),
            {
                "mcpu": str,
                "mattr": list[str],
                "mtriple": str,
                "mfloat-abi": str,
                "mabi": str,
                "num-cores": int,
                "opt-level": int,
                "vector-width": int,
                "jit": str,
                "cl-opt": list[str],
                "fast-math": bool,
            },
        ),
        _kind("c", "cpu", ("cpu",), {"mcpu": str, "march": str, "num-cores": int}),
        _kind(
            "cuda",
            "cuda",
            ("cuda", "gpu"),
            {
                "mcpu": str,
                "arch": str,
                "max_shared_memory_per_block": int,
                "max_threads_per_block": int,
                "registers_per_block": int,
                "l2_cache_size_bytes": int,
                "thread_warp_size": int,
                "max_num_threads": int,
            },
            {"thread_warp_size": 32, "max_num_threads": 1024},
        ),
    )
}
