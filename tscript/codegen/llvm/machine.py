"""This machine as LLVM sees it, and object code made runnable in this process."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import llvmlite
import llvmlite.binding as _binding

from tscript.codegen.llvm.fastcall import PYTHON_SYMBOLS, call_symbol, table_symbol
from tscript.codegen.llvm.objects import symbols_of
from tscript.codegen.llvm.soundness import require_sound
from tscript.codegen.llvm.stmt import entry_symbol
from tscript.codegen.llvm.thread_pool import (
    NUMBER_SYMBOL,
    RESET_SYMBOL,
    RUN_SYMBOL,
    pool_text,
    required_symbols,
    serial_text,
)
from tscript.codegen.llvm.tile_state import request_tiles
from tscript.codegen.threads import number_address
from tscript.support.errors import BuildError

# It comes without types.
llvm: Any = _binding


class _Setup:
    """The one-time start of LLVM, and the answer to which CPU this is."""

    lock = threading.Lock()
    host: tuple[str, str] | None = None


def host_cpu() -> tuple[str, str]:
    """LLVM's name of this machine's CPU, and its features as LLVM lists them: `"+avx2,-amx-tile,..."`."""
    with _Setup.lock:
        if _Setup.host is None:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            for name in PYTHON_SYMBOLS:
                # An executable need not export these to the linker, but Python itself always knows them.
                llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
            _Setup.host = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        return _Setup.host


def process_triple() -> str:
    """LLVM's name of the machine, system and binary interface that code of this process is for."""
    return llvm.get_process_triple()


def llvm_versions() -> str:
    """The versions of LLVM and of the binding to it."""
    return f"LLVM {llvm.llvm_version_info}, llvmlite {llvmlite.__version__}"


def target_machine(mcpu: str, mattr: Sequence[str], level: int) -> Any:
    """LLVM's generator of code for a CPU; an empty name means this one."""
    cpu, features = host_cpu()
    if mcpu:
        cpu, features = mcpu, ""
    features = ",".join([*([features] if features else []), *mattr])
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=level, jit=True)


class _Threads:
    """The threads that run parallel loops; their code must be there as long as they are: to the end of the process."""

    lock = threading.Lock()
    started = False


def _start_threads() -> None:
    """Let code call the pool of threads. The threads themselves are made when the first loop runs."""
    with _Threads.lock:
        if _Threads.started:
            return
        has_threads = os.name == "posix" and all(map(_is_in_process, required_symbols()))
        llvm.add_symbol(NUMBER_SYMBOL, number_address())
        machine = target_machine("", (), 3)
        context = llvm.create_context()
        module = llvm.parse_assembly(pool_text() if has_threads else serial_text(), context)
        module.verify()
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        for part in (engine, context, machine):
            # A reference too many, so that nothing of this is given back.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))
        reset = ctypes.CFUNCTYPE(None)(engine.get_function_address(RESET_SYMBOL))
        reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=reset)
        llvm.add_symbol(RUN_SYMBOL, engine.get_function_address(RUN_SYMBOL))
        _Threads.started = True


class MachineCode:
    """Object code in memory that can be run. It lives as long as this object, which every function made of it keeps.

    `kernels` are the public kernels in it, `python_calls` those of them with a function that CPython calls. Raises
    BuildError, before anything is loaded, for code that needs a symbol this process does not have, and
    ValueError for bytes that are no object code, or lack a symbol they should have.
    """

    def __init__(self, image: bytes, kernels: Sequence[str], python_calls: Sequence[str], machine: Any = None) -> None:
        host_cpu()
        wanted = [entry_symbol(k) for k in kernels]
        wanted += [s for k in python_calls for s in (call_symbol(k), table_symbol(k))]
        if RUN_SYMBOL.encode() in image:
            _start_threads()
        _require_symbols(image, wanted)
        self.image = image
        engine, context = _engine(machine or target_machine("", (), 0))
        loaded = llvm.object_file.ObjectFileRef.from_data(image)
        engine.add_object_file(loaded)
        engine.finalize_object()
        # The garbage collector may finish the parts of a cycle in any order, but the engine has to go before what
        # it was made of. The finalizer owns all of it, so that it is never part of a cycle.
        weakref.finalize(self, _close, (engine, loaded, context), image).atexit = False
        self._addresses = {k: engine.get_function_address(entry_symbol(k)) for k in kernels}
        self._calls = {
            k: (engine.get_function_address(call_symbol(k)), engine.get_global_value_address(table_symbol(k)))
            for k in python_calls
        }

    def address(self, name: str) -> int:
        """The address of the entry function of a kernel."""
        return self._addresses[name]

    def python_call(self, name: str) -> tuple[int, int] | None:
        """Addresses of the function that CPython calls for a kernel, and of its table; None if it has none."""
        return self._calls.get(name)


def _engine(machine: Any) -> tuple[Any, Any]:
    """An engine without any module, and the context it was made in."""
    context = llvm.create_context()
    # An engine is made of a module; object code is put into it once that is gone, so that nothing is compiled.
    module = llvm.parse_assembly("", context)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.remove_module(module)
    module.close()
    return engine, context


def _close(parts: tuple[Any, ...], image: bytes) -> None:
    # The parts refer to the bytes of the image, which is an argument to be there until they are gone.
    for part in parts:
        part.close()


def _require_symbols(image: bytes, wanted: Sequence[str]) -> None:
    # LLVM ends the process over a symbol that it cannot resolve, so all are looked up first, where it will look.
    found = symbols_of(image)
    if found is None:
        if llvm.get_object_format() == "ELF":
            raise ValueError("the object code is for another system")
        return
    missing = [name for name in wanted if name not in found.defined]
    if missing:
        raise ValueError(f"the object code does not define {missing[0]}")
    for name in found.needed:
        require_symbol(name, "the object code")


@functools.cache
def _process() -> Any:
    return ctypes.CDLL(None) if os.name == "posix" else None


def _is_in_process(symbol: str) -> bool:
    process = _process()
    if process is None:
        return False
    try:
        process[symbol]  # unlike an attribute, this is not kept
    except AttributeError:
        return False
    return True


def require_symbol(symbol: str, wanted_by: str) -> None:
    """Raise BuildError unless this process has the C function `symbol`."""
    if symbol == "_GLOBAL_OFFSET_TABLE_":
        return  # the loader makes it
    if not _is_in_process(symbol) and llvm.address_of_symbol(symbol) is None:
        raise BuildError(
            f"{wanted_by} needs the C function `{symbol}`, which this process does not have\n"
            '  try: load its library first, as in ctypes.CDLL("libname.so", mode=ctypes.RTLD_GLOBAL)'
        )


__all__ = [
    "MachineCode",
    "host_cpu",
    "llvm",
    "process_triple",
    "request_tiles",
    "require_sound",
    "require_symbol",
    "target_machine",
]
