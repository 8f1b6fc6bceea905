"""What a process of the builder does with one candidate."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tscript.driver import build
from tscript.ir.function import IRModule
from tscript.meta_schedule.postproc.layout_blocks import remove_layout_blocks
from tscript.runtime.module import Module
from tscript.runtime.registry import get_global_func
from tscript.support.config import configure
from tscript.target.target import Target

Build = Callable[[IRModule, Target, Mapping[str, Any] | None], Any]
Export = Callable[[Any], str]
ARTIFACT = "candidate.tslib"


def default_build(mod: IRModule, target: Target, params: Mapping[str, Any] | None = None) -> Module:
    """Compile a candidate, without the blocks that only rearrange constant weights."""
    del params  # functions take all that they need as arguments
    return build(remove_layout_blocks(mod), target)


def default_export(built: Module) -> str:
    """Write a candidate to a folder of its own; the path of the file."""
    path = Path(tempfile.mkdtemp(prefix="tscript-candidate-")) / ARTIFACT
    built.export_library(path)
    return str(path)


def named(function: str | Callable[..., Any] | None, default: Callable[..., Any]) -> Callable[..., Any]:
    """A function given as itself, by its registered name, or not at all."""
    if function is None:
        return default
    return get_global_func(function) if isinstance(function, str) else function


def build_candidate(
    f_build: str | Build | None, f_export: str | Export | None, mod: IRModule, target: Target, params: Any
) -> str:
    """Compile and export; the path of the artifact."""
    # Most candidates are built once and never again: keeping them would push out what is of use.
    with configure(cache="off"):
        built = named(f_build, default_build)(mod, target, params)
        return named(f_export, default_export)(built)
