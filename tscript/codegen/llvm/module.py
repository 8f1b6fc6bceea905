"""A lowered module as LLVM IR text, and that as machine code in this process."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tscript.codegen.abi import KernelAbi, kernel_abi
from tscript.codegen.llvm.availability import require_available, require_known
from tscript.codegen.llvm.builder import Failure, ModuleText
from tscript.codegen.llvm.cache import cached
from tscript.codegen.llvm.call_graph import called_functions, recursive_functions
from tscript.codegen.llvm.fastcall import call_text
from tscript.codegen.llvm.machine import (
    MachineCode,
    host_cpu,
    llvm,
    llvm_versions,
    process_triple,
    require_symbol,
    target_machine,
)
from tscript.codegen.llvm.parallel import KernelEmitter
from tscript.codegen.llvm.processors import contracts, fast_math_of, function_attributes
from tscript.codegen.llvm.stmt import entry_text
from tscript.codegen.llvm.tile_state import USES_TILES, request_tiles
from tscript.codegen.llvm.versions import emit_versions
from tscript.ir.function import IRModule, PrimFunc
from tscript.lower.apart import may_meet
from tscript.support.errors import BuildError, InternalError
from tscript.support.recursion import room_for_deep_programs
from tscript.target.target import Target


@dataclass(frozen=True, slots=True)
class ModuleCode:
    """LLVM IR text of a module, the interfaces of its kernels, and its failures by status (from 1)."""

    text: str
    kernels: tuple[KernelAbi, ...]
    failures: tuple[Failure, ...]
    externals: tuple[tuple[str, str], ...]
    python_calls: tuple[str, ...] = ()
    intrinsics: tuple[str, ...] = ()


def emit_module(
    mod: IRModule, python_calls: bool = False, target: Target | None = None, apart: IRModule | None = None
) -> ModuleCode:
    """The code of a lowered module, not yet optimised. Raises BuildError for what has no native form.

    `target` says how floating-point operations may be done (without one, none is fused or reordered). A function with
    a `Target` in its attribute `target` is for that one, whatever the others are for.
    A function that `apart` has too runs as that one where its arrays do not overlap.
    With `python_calls`, public kernels get functions that CPython calls directly, where they can have one.
    """
    functions = {v.name_hint: f for v, f in mod.functions.items()}
    text = ModuleText(functions, recursive_functions(functions), called_functions(functions))
    kernels: list[KernelAbi] = []
    called: list[str] = []
    for var, func in mod.functions.items():
        abi = kernel_abi(var.name_hint, func)
        own = func.attrs.get("target")
        if isinstance(own, Target):
            text.attributes[abi.name] = function_attributes(own)
        chosen = own if isinstance(own, Target) else target
        other = None if apart is None or var not in apart.functions else apart.functions[var]
        with room_for_deep_programs(BuildError):
            if other is None:
                text.bodies.append(_emitter(text, var.name_hint, func, chosen).emit())
            else:
                one = functools.partial(_emitter, text, var.name_hint, target=chosen)
                text.bodies.extend(emit_versions(one, func, other, may_meet(func)))
        if abi.is_public:
            text.bodies.append(entry_text(abi, text.attributes.get(abi.name, ""), abi.name in text.recursive))
            direct = call_text(text, abi) if python_calls else None
            if direct is not None:
                text.bodies.append(direct)
                called.append(abi.name)
        kernels.append(abi)
    failures, externals = tuple(text.failures), tuple(text.externals.items())
    return ModuleCode(text.text(), tuple(kernels), failures, externals, tuple(called), tuple(text.intrinsics))


def _emitter(text: ModuleText, name: str, func: PrimFunc, target: Target | None) -> KernelEmitter:
    emitter = KernelEmitter(text, kernel_abi(name, func), func)
    if target is not None:
        emitter.most_threads = int(target.get_attr("num-cores", 0))
        emitter.b.fast_math, emitter.b.contracts = fast_math_of(target), contracts(target)
        emitter.b.features, emitter.b.attributes = target.features, text.attributes.get(name, "")
    return emitter


class CompiledModule(MachineCode):
    """A module compiled for a CPU (this machine's, if `mcpu` is empty), ready to run."""

    def __init__(self, code: ModuleCode, mcpu: str = "", mattr: Sequence[str] = (), level: int = 3) -> None:
        self.code = code
        self._options = (mcpu, tuple(mattr), level)
        for symbol, wanted_by in code.externals:
            require_symbol(symbol, wanted_by)
        for name in code.intrinsics:
            require_available(name, ",".join([*(() if mcpu else (host_cpu()[1],)), *mattr]))
        if USES_TILES in code.intrinsics:
            request_tiles()
        machine = target_machine(mcpu, mattr, level)
        self._bitcode, image = cached(_key(code, mcpu, mattr, level), lambda: _compiled(code, machine, level))
        public = [k.name for k in code.kernels if k.is_public]
        super().__init__(image, public, code.python_calls, machine)

    @property
    def triple(self) -> str:
        """LLVM's name of the kind of machine and system that the code is for."""
        return process_triple()

    def source(self, fmt: str) -> str:
        """The optimised code as "ll" (LLVM IR) or "asm" (assembly)."""
        context = llvm.create_context()
        module = llvm.parse_bitcode(self._bitcode, context)
        try:
            return str(module) if fmt == "ll" else str(target_machine(*self._options).emit_assembly(module))
        finally:
            module.close()
            context.close()


def _key(code: ModuleCode, mcpu: str, mattr: Sequence[str], level: int) -> list[str]:
    """All that decides the machine code of a module."""
    cpu = [mcpu] if mcpu else list(host_cpu())
    return [code.text, *code.intrinsics, *cpu, *mattr, str(level), process_triple(), llvm_versions()]


def _compiled(code: ModuleCode, machine: Any, level: int) -> tuple[bytes, bytes]:
    """Optimised bitcode, and object code made of it; less optimised, with a warning, where the optimiser fails."""
    failure = ""
    for lower in range(level, -1, -1):
        # A context of its own, so that builds in several threads share nothing.
        context = llvm.create_context()
        try:
            module = _parse(code.text, context)
            try:
                for name in code.intrinsics:
                    require_known(module, name)
                module.triple = process_triple()
                module.data_layout = str(machine.target_data)
                _optimise(module, machine, lower)
                module.verify()
                return module.as_bitcode(), machine.emit_object(module)
            except RuntimeError as e:
                failure = str(e)
            finally:
                module.close()
        finally:
            context.close()
        if lower == 0:
            break
        text = f"LLVM failed at optimisation level {lower}, so that level {lower - 1} is taken: {failure}"
        warnings.warn(text, stacklevel=4)
    raise BuildError(f"LLVM failed to compile the module at every optimisation level: {failure}")


def _parse(text: str, context: Any) -> Any:
    module: Any = None
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as e:
        if module is not None:
            # The error keeps it alive beyond its context, which it must not outlive.
            module.close()
        if "intrinsic" in str(e).lower():
            raise BuildError(f"LLVM does not accept an intrinsic as it is called: {e}") from None
        raise InternalError(f"the code generated for LLVM is malformed: {e}") from e
    return module


def _optimise(module: Any, machine: Any, level: int) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.slp_vectorization = level >= 2
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    try:
        passes.run(module, builder)
    finally:
        _dispose(passes)


def _dispose(passes: Any) -> None:
    """Give back the memory of a pass manager."""
    kind: Any = passes.__class__
    if kind._dispose is llvm.ffi.ObjectRef._dispose:
        # The bindings' class inherits the method that does nothing before the one that does it.
        llvm.newpassmanagers.NewPassManager._dispose(passes)
    passes.close()
