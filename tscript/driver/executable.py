"""`compile`: what `build` makes, under the interface of an executable."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from tscript.driver.compile import build
from tscript.driver.programs import Program, TargetLike
from tscript.lower.pipeline import Pass
from tscript.runtime.module import Module


class Executable:
    """A built program: `exe["name"](a, b)`, `exe(a, b)` for the entry function, `exe.mod` for the module."""

    def __init__(self, mod: Module) -> None:
        self.mod = mod

    def jit(self) -> Module:
        """The module, which is in machine code already."""
        return self.mod

    def export_library(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, as `Module.export_library` does."""
        self.mod.export_library(path)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.mod[name]

    def __call__(self, *args: Any) -> Any:
        return self.mod(*args)

    def __repr__(self) -> str:
        return f"Executable({self.mod!r})"


def compile(
    program: Program, target: TargetLike = None, *, tir_pipeline: str | Sequence[Pass] | None = "default"
) -> Executable:
    """Compile a program, as `build` does, into an executable.

    Raises what `build` raises.
    """
    return Executable(build(program, target, pipeline=tir_pipeline))


__all__ = ["Executable", "compile"]
