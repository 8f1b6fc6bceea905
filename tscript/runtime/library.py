"""Library files as modules."""

from __future__ import annotations

import importlib
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from tscript.codegen.abi import KernelAbi
from tscript.runtime.container import read, unpack
from tscript.runtime.export import SOURCES
from tscript.runtime.function import CompiledFunction
from tscript.runtime.interface import LoadedFailure, load_failures, load_kernels
from tscript.runtime.module import Module
from tscript.runtime.unavailable import UnavailableFunction, missing_features
from tscript.support.errors import BuildError, CorruptLibraryError, LibraryError, TScriptError
from tscript.target.target import Target

_MOST_IMPORTS = 999


class _Machine(Protocol):
    """What the module that knows this machine offers; LLVM is loaded with it."""

    def process_triple(self) -> str:
        """What code of this process is for."""
        ...

    def require_sound(self, image: bytes) -> None:
        """Raise ValueError for object code that the loader could stumble over."""
        ...

    def request_tiles(self) -> None:
        """Ask the system for the tiles of AMX; BuildError where it gives none."""
        ...

    def MachineCode(self, image: bytes, kernels: list[str], python_calls: list[str]) -> Any:
        """Object code made runnable."""
        ...


def _machine() -> _Machine:
    return importlib.import_module("tscript.codegen.llvm.machine")  # pyright: ignore[reportReturnType]


class LoadedCode:
    """The machine code of a library."""

    def __init__(self, code: Any, triple: str, sources: Mapping[str, tuple[bytes, int]]) -> None:
        self._code = code
        self.triple = triple
        self._sources = dict(sources)

    @property
    def image(self) -> bytes:
        """Object code."""
        return self._code.image

    def address(self, name: str) -> int:
        """The address of the entry function of a kernel."""
        return self._code.address(name)

    def python_call(self, name: str) -> tuple[int, int] | None:
        """Addresses of the function that CPython calls for a kernel, and of its table; None if it has none."""
        return self._code.python_call(name)

    def source(self, fmt: str) -> str:
        """The code as text, "ll" or "asm", as it was when the library was written."""
        packed, size = self._sources[fmt]
        # A size is stated beside, so that a small file cannot ask for all the memory there is.
        return zlib.decompressobj().decompress(packed, size).decode("utf-8", "replace")


def load_module(path: str | os.PathLike[str]) -> Module:
    """The module that `Module.export_library` wrote to a file. Nothing is compiled.

    A library is code, as a `.so` is: load only what you would run. Files that are damaged, of another kind, of
    a later version or for another machine are refused before anything of them is executed.

    Raises CorruptLibraryError or LibraryError (both are ValueErrors), OSError where the file cannot be read, and
    BuildError where this process lacks a C function that the code calls.
    """
    where = os.fspath(path)
    return _module(read(path), where)


def _module(parts: Mapping[str, bytes], where: str) -> Module:
    try:
        facts: dict[str, Any] = json.loads(parts["fact"])
        triple = facts["triple"]
        if not isinstance(triple, str):
            raise TypeError(f"its kind of machine is {triple!r}")
        machine = _machine()
        _require_kind(triple, machine.process_triple(), where)
        kernels = load_kernels(parts["face"])
        names = [k.name for k in kernels]
        calls = [str(name) for name in facts["calls"]]
        entry = facts["entry"]
        if len({*names}) != len(names) or not {*calls} <= {*names} or not (entry is None or entry in names):
            raise ValueError("its names of functions disagree")
        failures = load_failures(facts["failures"])
        target = Target(facts["target"])
        sources = {fmt: (parts[f"{fmt:_<4}"], int(facts["sources"][fmt])) for fmt in SOURCES}
        imports = [parts[f"i{n:03}"] for n in range(min(int(facts["imports"]), _MOST_IMPORTS + 1))]
        needs = {name: frozenset(map(str, facts["features"][name])) for name in names}
        _require_features(needs, where)
        if any("amx-tile" in wanted for wanted in needs.values()):
            # Few functions for such a CPU use its tiles, so that a system without them is no reason to refuse.
            with suppress(BuildError):
                machine.request_tiles()
        machine.require_sound(parts["code"])
        code = LoadedCode(machine.MachineCode(parts["code"], names, calls), triple, sources)
        functions = {k.name: _function(k, code, failures, needs[k.name]) for k in kernels}
    except (LibraryError, BuildError):
        raise
    except (TScriptError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as e:
        # The checksum was right, so whoever wrote it wrote it this way.
        raise CorruptLibraryError(f"{where} is no proper library: {type(e).__name__}: {e}") from e
    made = Module(functions, code, entry, target.kind.name, target)
    made.imported_modules += [_module(unpack(content, where), where) for content in imports]
    return made


def _function(
    kernel: KernelAbi, code: LoadedCode, failures: Sequence[LoadedFailure], features: frozenset[str]
) -> CompiledFunction:
    address = code.address(kernel.name)
    missing = missing_features(features)
    if missing:
        return UnavailableFunction(kernel, address, failures, code, missing, features)
    return CompiledFunction(kernel, address, failures, code, code.python_call(kernel.name), features)


def _require_kind(triple: str, here: str, where: str) -> None:
    if _kind_of(triple) != _kind_of(here):
        raise LibraryError(
            f"{where} holds code for {triple}, and this process is {here}\n  try: build and export it on such a machine"
        )


def _require_features(needs: Mapping[str, frozenset[str]], where: str) -> None:
    """One function that can run is enough: a library may have variants for several CPUs."""
    missing = [missing_features(wanted) for wanted in needs.values()]
    if missing and all(missing):
        first = min(missing, key=lambda m: (len(m), m))
        raise LibraryError(
            f"{where} holds code that uses CPU features which this machine does not have: {', '.join(first)}\n"
            '  try: build it for a CPU that all your machines include, as in target="llvm -mcpu=x86-64-v3"'
        )


def _kind_of(triple: str) -> tuple[str, ...]:
    """A triple without its vendor, and without the version of its system."""
    processor, _, *system = (triple + "--").split("-")
    return processor, *(re.sub(r"[\d.]+$", "", s) for s in system if s)
