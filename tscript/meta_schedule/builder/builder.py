"""The builder's role: candidates in, files with machine code out."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from tscript.ir.function import IRModule
from tscript.meta_schedule.component import Component
from tscript.target.target import Target


@dataclass(frozen=True)
class BuilderInput:
    """A program to compile for a target; `params` are constants that are bound to it."""

    mod: IRModule
    target: Target
    params: dict[str, Any] | None = None


@dataclass(frozen=True)
class BuilderResult:
    """Where the code lies, or why there is none: exactly one of both is given."""

    artifact_path: str | None
    error_msg: str | None


class Builder(Component, role="builder"):
    """Compiles candidates. A failure is a result with a message, never an exception."""

    @abstractmethod
    def build(self, build_inputs: list[BuilderInput]) -> list[BuilderResult]:
        """One result for each input, in order."""


PyBuilder = Builder
