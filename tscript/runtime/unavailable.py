"""Functions in machine code that this machine cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from tscript.codegen.abi import KernelAbi
from tscript.runtime.function import CompiledFunction, FailureRecord
from tscript.support.errors import ExecutionError
from tscript.target.detect import host_processor


def missing_features(needed: frozenset[str]) -> list[str]:
    """Those of some CPU features that this machine does not have, in order."""
    return sorted(needed - host_processor()[1])


class UnavailableFunction(CompiledFunction):
    """A function for a CPU with `missing` features, which this machine lacks: its code can be read, not called."""

    def __init__(
        self,
        abi: KernelAbi,
        address: int,
        failures: Sequence[FailureRecord],
        keep: object,
        missing: Sequence[str],
        features: Iterable[str] = (),
    ) -> None:
        super().__init__(abi, address, failures, keep, None, features)
        self._missing = tuple(missing)

    def _prepare(self, args: tuple[Any, ...]) -> NoReturn:
        del args
        raise ExecutionError(
            f"{self.abi.name} was built for a CPU with {', '.join(self._missing)}, which this machine lacks\n"
            '  try: build it with target="llvm", which means the CPU at hand'
        )
