"""What a process of the runner does with one candidate: hold it to the program before scheduling, then time it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.hashing import structural_hash
from tscript.meta_schedule.arg_info import ArgInfo, TensorInfo
from tscript.meta_schedule.builder.build_job import named
from tscript.meta_schedule.runner.evaluator_config import EvaluatorConfig
from tscript.meta_schedule.runner.reference import Reference
from tscript.runtime.device import Device, cpu
from tscript.runtime.library import load_module
from tscript.runtime.module import Module
from tscript.runtime.ndarray import NDArray, empty

AllocArgument = Callable[[Device, list[ArgInfo], int], list[list[Any]]]
RunEvaluator = Callable[[Module, Device, EvaluatorConfig, list[list[Any]]], list[float]]
Cleanup = Callable[[], object]


# The programs before scheduling that this process has run already, by hash, and the best time of their schedules.
_references: dict[int, Reference] = {}
_best: dict[int, float] = {}
_SLOW = 4.0
"""A candidate so many times slower than the best is timed briefly: exactly how slow it is matters little."""


def _reference(mod: IRModule) -> Reference:
    key = structural_hash(mod)
    if key not in _references:
        _references.clear()  # one task at a time is measured
        _best.clear()
        _references[key] = Reference(mod)
    return _references[key]


def prepare(reference: IRModule) -> None:
    """Run the program before scheduling, so that no candidate's time limit pays for it."""
    _reference(reference)


class Before:
    """What a process does before its first candidate: what the user asked for, and running the reference, if one was
    run before.
    """

    def __init__(self, initializer: Callable[[], object] | None) -> None:
        self.initializer = initializer
        self.reference: IRModule | None = None

    def __call__(self) -> None:
        if self.initializer is not None:
            self.initializer()
        if self.reference is not None:
            prepare(self.reference)


def default_alloc_argument(device: Device, args_info: Sequence[ArgInfo], alloc_repeat: int) -> list[list[Any]]:
    """`alloc_repeat` sets of random arguments: floats from 1 to 10, small integers."""
    rng = np.random.default_rng(0)
    return [[_random_array(rng, info, device) for info in args_info] for _ in range(alloc_repeat)]


def _random_array(rng: np.random.Generator, info: ArgInfo, device: Device) -> NDArray:
    if not isinstance(info, TensorInfo):
        raise TypeError(f"only tensors can be allocated, not {info!r}")
    blank = empty(info.shape, info.dtype, device)
    kind = blank.numpy().dtype
    if kind.kind in "iub":
        values = rng.integers(0, 2 if kind.kind == "b" else 10, info.shape).astype(kind)
    else:
        values = rng.uniform(1, 10, info.shape).astype(kind)
    blank.copyfrom(values)
    return blank


def default_run_evaluator(
    module: Module, device: Device, config: EvaluatorConfig, repeated_args: Sequence[Sequence[Any]]
) -> list[float]:
    """Seconds of each repeat, for each set of arguments."""
    evaluator = module.time_evaluator(
        module.entry_name,
        device,
        number=config.number,
        repeat=config.repeat,
        min_repeat_ms=config.min_repeat_ms,
        f_preproc="cache_flush_cpu_non_first_arg" if config.enable_cpu_cache_flush else "",
    )
    return [s for args in repeated_args for s in evaluator(*args).results]


def measure(
    artifact_path: str,
    device_type: str,
    args_info: list[ArgInfo],
    reference: IRModule | None,
    config: EvaluatorConfig,
    alloc_repeat: int,
    functions: tuple[Any, Any, Any],
    layouts: Mapping[int, PrimFunc] | None = None,
) -> list[float]:
    """Seconds of each repeat. Raises WrongResult, or whatever the candidate raises."""
    f_alloc_argument, f_run_evaluator, f_cleanup = functions
    device = cpu(0)
    try:
        module = load_module(artifact_path)
        if reference is not None:
            _reference(reference).require(module, layouts)
        args = named(f_alloc_argument, default_alloc_argument)(device, _taken(args_info, layouts), alloc_repeat)
        if f_run_evaluator is not None or reference is None:
            return list(named(f_run_evaluator, default_run_evaluator)(module, device, config, args))
        return _timed(module, device, config, args, structural_hash(reference))
    finally:
        named(f_cleanup, _nothing)()


def _taken(args_info: list[ArgInfo], layouts: Mapping[int, PrimFunc] | None) -> list[ArgInfo]:
    """What a program takes whose weights are laid out anew."""
    new = {k: ArgInfo.from_prim_func(f)[1] for k, f in (layouts or {}).items()}
    return [new.get(k, info) for k, info in enumerate(args_info)]


def _timed(module: Module, device: Device, config: EvaluatorConfig, args: list[list[Any]], key: int) -> list[float]:
    """Seconds as `config` says; only the first figures of a candidate that is clearly slower than the best so far."""
    brief = replace(config, number=1, min_repeat_ms=config.min_repeat_ms // 10)
    if config.min_repeat_ms and key in _best:
        found = default_run_evaluator(module, device, brief, args)
        if min(found) > _SLOW * _best[key]:
            return found
    found = default_run_evaluator(module, device, config, args)
    _best[key] = min(_best.get(key, np.inf), *found)
    return found


def _nothing() -> None:
    pass
