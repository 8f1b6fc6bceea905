"""`build` and `lower`."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any, Final, Protocol

from tscript.codegen.abi import KernelAbi
from tscript.driver.dump import dump_native, function_dump
from tscript.driver.programs import Program, TargetLike, bind_targets, require_cpu, target_of
from tscript.ir.expr import IntImm
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.structural import structural_equal
from tscript.lower.apart import may_meet
from tscript.lower.pipeline import CPU_PIPELINE, Pass, Watch, lower_module
from tscript.lower.pressure import RegisterFile, describe, find_spills
from tscript.runtime.fastcall import is_available
from tscript.runtime.function import CompiledFunction
from tscript.runtime.module import Module
from tscript.runtime.unavailable import UnavailableFunction
from tscript.support.config import current
from tscript.support.wording import kind_of
from tscript.target.detect import host_processor
from tscript.target.processors import PROCESSORS
from tscript.target.target import Target

_OPT_LEVEL: Final = 3


class _Backend(Protocol):
    """What a back end's module offers; it is imported when it is first needed."""

    def emit_module(self, mod: IRModule, python_calls: bool, target: Target, apart: IRModule) -> Any:
        """The code of a lowered module, of which functions may have a version where arrays do not overlap."""
        ...

    def CompiledModule(self, code: Any, mcpu: str, mattr: list[str], level: int) -> Any:
        """The code made runnable."""
        ...


class _Processors(Protocol):
    """What the back end knows about CPUs."""

    def require_processor(self, target: Target) -> None:
        """Raise BuildError for a CPU without code."""
        ...

    def features_of(self, target: Target) -> list[str]:
        """Features switched on and off."""
        ...

    def vector_registers(self, target: Target) -> tuple[int, int]:
        """How many there are, and the bytes of each."""
        ...

    def ineffective_options(self, target: Target) -> list[str]:
        """Options that change nothing."""
        ...


def _processors() -> _Processors:
    return importlib.import_module("tscript.codegen.llvm.processors")  # pyright: ignore[reportReturnType]


def _backend() -> _Backend:
    # LLVM is large: a program that only prints or interprets must not load it.
    return importlib.import_module("tscript.codegen.llvm.module")  # pyright: ignore[reportReturnType]


def lower(
    program: Program, target: TargetLike = None, *, name: str | None = None, watch: Watch | None = None
) -> IRModule:
    """The program as plain loops over flat memory, as the back end of `target` takes it.

    Takes programs and targets in the forms of `build`. `watch(name, func)` is called after each pass. Raises
    LoweringError for what has no such form.
    """
    mod, main = bind_targets(program, target, None, name)
    require_cpu(mod, main)
    return _lower(mod, CPU_PIPELINE, watch)


def build(
    program: Program,
    target: TargetLike = None,
    *,
    target_host: TargetLike = None,
    name: str | None = None,
    pipeline: str | Sequence[Pass] | None = "default",
) -> Module:
    """Compile a function, a module, or several of them into machine code.

    `program` is a function, an `IRModule`, a schedule, a list of these, or a dict of targets to these, whose
    functions then lie in one module. `target` is text, a dict or a `Target`; without it the innermost
    `with target:` counts, else this machine's CPU. A function with an attribute `target` is compiled for that
    one. `target_host` replaces the host of the target, `name` the name of a single function, and `pipeline`
    the passes of lowering.

    Functions without `global_symbol` are private: others of the module can call them. The entry function, which
    `lib(...)` calls, is the only public one, else the one marked `tir.is_entry_func`, else `main`. May be
    called from several threads.

    Raises LoweringError or BuildError for a program that has no native form, ValueError for a bad target or
    pipeline and for names that clash, TypeError for what is no program.

    >>> import numpy as np
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def add(A: T.Buffer((2,), "int32")):
    ...     A[0] = A[0] + A[1]
    >>> a = np.array([3, 4], "int32")
    >>> build(add, "llvm -opt-level=1", name="add_up")["add_up"](a)
    >>> a.tolist()
    [7, 4]
    """
    passes = _passes(pipeline)
    mod, main = bind_targets(program, target, target_host, name)
    require_cpu(mod, main)
    targets = {v.name_hint: target_of(f, main) for v, f in mod.functions.items()}
    processors = _processors()
    for t in dict.fromkeys([main, *targets.values()]):
        processors.require_processor(t)
        idle = processors.ineffective_options(t)
        if idle:
            warnings.warn(f"these options of the target change nothing yet: -{', -'.join(idle)}", stacklevel=2)
    backend = _backend()
    lowered = _lower(mod, passes)
    spills = _spills(lowered, targets, processors)
    if spills:
        warnings.warn(spills, stacklevel=2)
    code = backend.emit_module(lowered, is_available(), main, _where_apart(mod, lowered, passes))
    level = int(next(iter(targets.values()), main).get_attr("opt-level", _OPT_LEVEL))
    compiled = backend.CompiledModule(code, main.mcpu, processors.features_of(main), level)
    if current().dump:
        dump_native(compiled.source("ll"))
    kernels: list[KernelAbi] = [k for k in code.kernels if k.is_public]
    functions = {k.name: _function(k, code, compiled, targets[k.name]) for k in kernels}
    return Module(functions, compiled, _entry(mod, kernels), main.kind.name, main)


def _passes(pipeline: str | Sequence[Pass] | None) -> Sequence[Pass]:
    if pipeline is None or pipeline == "default":
        return CPU_PIPELINE
    if isinstance(pipeline, str):
        raise ValueError(f"unknown pipeline {pipeline!r}; choose 'default', or pass a list of passes")
    if not isinstance(pipeline, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a pipeline is 'default' or a list of passes, not {kind_of(pipeline)}")
    for step in pipeline:
        if not isinstance(step, Pass):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a pipeline is a list of passes, not of {kind_of(step)}")
    return pipeline


def _function(kernel: KernelAbi, code: Any, compiled: Any, target: Target) -> CompiledFunction:
    """A kernel to call, or to read only where its CPU can more than this one."""
    address = compiled.address(kernel.name)
    here = host_processor()[1]
    missing = sorted(target.features - here)
    # What a CPU can that the tables do not list is unknown; its code is known to run on machines like this one.
    is_known = target.mcpu in ("", "generic") or target.mcpu in PROCESSORS
    features = target.features if is_known else target.features | here
    if missing:
        return UnavailableFunction(kernel, address, code.failures, compiled, missing, features)
    return CompiledFunction(kernel, address, code.failures, compiled, compiled.python_call(kernel.name), features)


def _lower(mod: IRModule, passes: Sequence[Pass], watch: Watch | None = None) -> IRModule:
    def watch_of(name: str, func: PrimFunc) -> Watch | None:
        watches = [w for w in (function_dump(name, func), watch) if w is not None]

        def show(step: str, lowered: PrimFunc) -> None:
            for w in watches:
                w(step, lowered)

        return show if watches else None

    return lower_module(mod, passes, watch_of)


def _spills(lowered: IRModule, targets: dict[str, Target], processors: _Processors) -> str:
    """What to say of tiles that are larger than the registers of their target; empty where there are none."""
    found: list[str] = []
    for v, f in lowered.functions.items():
        spills = find_spills(f, RegisterFile(*processors.vector_registers(targets[v.name_hint])))
        if spills:
            found.append(describe(v.name_hint, spills))
    return "\n".join(found)


def _where_apart(mod: IRModule, lowered: IRModule, passes: Sequence[Pass]) -> IRModule:
    """The functions that are lowered to something else where their arrays are known not to overlap."""
    asked = {v: mod.functions[v].with_attr("tir.noalias", True) for v, f in lowered.functions.items() if may_meet(f)}
    if not asked:
        return mod.replace(functions={})
    found = lower_module(mod.replace(functions=asked), passes).functions
    same = {v: f.with_attr("tir.noalias", True) for v, f in lowered.functions.items()}
    return mod.replace(functions={v: f for v, f in found.items() if not structural_equal(f, same[v])})


def _entry(mod: IRModule, kernels: list[KernelAbi]) -> str | None:
    if len(kernels) == 1:
        return kernels[0].name
    for k in kernels:
        flag = mod[k.name].attrs.get("tir.is_entry_func")
        if isinstance(flag, IntImm) and flag.value:
            return k.name
    return "main" if any(k.name == "main" for k in kernels) else None
