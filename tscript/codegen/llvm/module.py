"""A lowered module as LLVM IR text, and that as machine code in this process."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as _binding

from tscript.codegen.abi import KernelAbi, kernel_abi
from tscript.codegen.llvm.availability import require_available, require_known
from tscript.codegen.llvm.builder import Failure, ModuleText
from tscript.codegen.llvm.fastcall import PYTHON_SYMBOLS, call_symbol, call_text, table_symbol
from tscript.codegen.llvm.stmt import FunctionEmitter, entry_symbol, entry_text
from tscript.ir.function import IRModule
from tscript.support.errors import BuildError, InternalError

# It comes without types.
llvm: Any = _binding


@dataclass(frozen=True, slots=True)
class ModuleCode:
    """LLVM IR text of a module, the interfaces of its kernels, and its failures by status (from 1)."""

    text: str
    kernels: tuple[KernelAbi, ...]
    failures: tuple[Failure, ...]
    externals: tuple[tuple[str, str], ...]
    python_calls: tuple[str, ...] = ()
    intrinsics: tuple[str, ...] = ()


def emit_module(mod: IRModule, python_calls: bool = False) -> ModuleCode:
    """The code of a lowered module, not yet optimised. Raises BuildError for what has no native form.

    With `python_calls`, public kernels get functions that CPython calls directly, where they can have one.
    """
    text = ModuleText({v.name_hint: f for v, f in mod.functions.items()})
    kernels: list[KernelAbi] = []
    called: list[str] = []
    for var, func in mod.functions.items():
        abi = kernel_abi(var.name_hint, func)
        text.bodies.append(FunctionEmitter(text, abi, func).emit())
        if abi.is_public:
            text.bodies.append(entry_text(abi))
            direct = call_text(text, abi) if python_calls else None
            if direct is not None:
                text.bodies.append(direct)
                called.append(abi.name)
        kernels.append(abi)
    failures, externals = tuple(text.failures), tuple(text.externals.items())
    return ModuleCode(text.text(), tuple(kernels), failures, externals, tuple(called), tuple(text.intrinsics))


class _Setup:
    """The one-time start of LLVM, and the answer to which CPU this is."""

    lock = threading.Lock()
    host: tuple[str, str] | None = None


def _host() -> tuple[str, str]:
    with _Setup.lock:
        if _Setup.host is None:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            for name in PYTHON_SYMBOLS:
                # An executable need not export these to the linker, but Python itself always knows them.
                llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
            _Setup.host = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        return _Setup.host


def host_cpu() -> tuple[str, str]:
    """LLVM's name of this machine's CPU, and its features as LLVM lists them."""
    return _host()


def _target_machine(mcpu: str, mattr: Sequence[str], level: int) -> Any:
    cpu, features = _host()
    if mcpu:
        cpu, features = mcpu, ""
    features = ",".join([*([features] if features else []), *mattr])
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=level, jit=True)


class CompiledModule:
    """Machine code of a module. It lives as long as this object, which every function made of it keeps."""

    def __init__(self, code: ModuleCode, mcpu: str = "", mattr: Sequence[str] = (), level: int = 3) -> None:
        self.code = code
        self._options = (mcpu, tuple(mattr), level)
        _require_externals(code)
        machine = _target_machine(mcpu, mattr, level)
        # A context of its own, so that builds in several threads share nothing.
        context = llvm.create_context()
        for name in code.intrinsics:
            require_available(name, ",".join([*(() if mcpu else (_host()[1],)), *mattr]))
        module = _parse(code.text, context)
        for name in code.intrinsics:
            require_known(module, name)
        module.triple = llvm.get_process_triple()
        module.data_layout = str(machine.target_data)
        _optimise(module, machine, level)
        self._bitcode: bytes = module.as_bitcode()
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        # The garbage collector may finish the parts of a cycle in any order, but the engine has to go before the
        # context its code was made in. The finalizer owns both, so that they are never part of a cycle.
        weakref.finalize(self, _close, engine, context).atexit = False
        self._addresses: dict[str, int] = {
            k.name: engine.get_function_address(entry_symbol(k.name)) for k in code.kernels if k.is_public
        }

        self._calls: dict[str, tuple[int, int]] = {
            name: (
                engine.get_function_address(call_symbol(name)),
                engine.get_global_value_address(table_symbol(name)),
            )
            for name in code.python_calls
        }

    def python_call(self, name: str) -> tuple[int, int] | None:
        """Addresses of the function that CPython calls for a kernel, and of its table; None if it has none."""
        return self._calls.get(name)

    def address(self, name: str) -> int:
        """The address of the entry function of a kernel."""
        return self._addresses[name]

    def source(self, fmt: str) -> str:
        """The optimised code as "ll" (LLVM IR) or "asm" (assembly)."""
        context = llvm.create_context()
        module = llvm.parse_bitcode(self._bitcode, context)
        try:
            return str(module) if fmt == "ll" else str(_target_machine(*self._options).emit_assembly(module))
        finally:
            _close(module, context)


def _close(first: Any, second: Any) -> None:
    first.close()
    second.close()


def _parse(text: str, context: Any) -> Any:
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as e:
        if "intrinsic" in str(e).lower():
            raise BuildError(f"LLVM does not accept an intrinsic as it is called: {e}") from None
        raise InternalError(f"the code generated for LLVM is malformed: {e}") from e
    return module


def _optimise(module: Any, machine: Any, level: int) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.slp_vectorization = level >= 2
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def _require_externals(code: ModuleCode) -> None:
    if not code.externals:
        return
    # LLVM ends the process over a name that it cannot resolve, so names are looked up first, where it will look.
    process = ctypes.CDLL(None) if os.name == "posix" else None
    for symbol, wanted_by in code.externals:
        if not hasattr(process, symbol) and llvm.address_of_symbol(symbol) is None:
            raise BuildError(
                f"{wanted_by} needs the C function `{symbol}`, which this process does not have\n"
                '  try: load its library first, as in ctypes.CDLL("libname.so", mode=ctypes.RTLD_GLOBAL)'
            )
