"""Modules as library files."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from tscript.runtime.container import pack
from tscript.runtime.function import CompiledFunction
from tscript.runtime.interface import save_failures, save_kernels
from tscript.target.target import Target

SOURCES: Final = ("ll", "asm")
"""The forms of source that a library keeps."""


class Code(Protocol):
    """The machine code behind a module."""

    @property
    def image(self) -> bytes:
        """Object code."""
        ...

    @property
    def triple(self) -> str:
        """LLVM's name of the kind of machine and system that the code is for."""
        ...

    def source(self, fmt: str) -> str:
        """The code as text, "ll" or "asm"."""
        ...

    def python_call(self, name: str) -> tuple[int, int] | None:
        """Addresses of the function that CPython calls for a kernel, and of its table; None if it has none."""
        ...


def exported(
    functions: Mapping[str, CompiledFunction],
    code: Code,
    entry: str | None,
    target: Target,
    imports: Sequence[bytes],
) -> bytes:
    """The content of a library file; `imports` are those of the modules that this one imports."""
    sources = {fmt: code.source(fmt).encode() for fmt in SOURCES}
    failures = next((f.failures for f in functions.values()), ())
    facts: dict[str, Any] = {
        "triple": code.triple,
        "features": {name: sorted(f.features) for name, f in functions.items()},
        "target": target.export(),
        "entry": entry,
        "calls": [name for name in functions if code.python_call(name) is not None],
        "failures": save_failures(failures),
        "sources": {fmt: len(text) for fmt, text in sources.items()},
        "imports": len(imports),
    }
    parts = {
        "fact": json.dumps(facts, sort_keys=True).encode(),
        "face": save_kernels([f.abi for f in functions.values()]).encode(),
        "code": code.image,
        **{f"{fmt:_<4}": zlib.compress(text) for fmt, text in sources.items()},
        **{f"i{n:03}": content for n, content in enumerate(imports)},
    }
    return pack(parts)
