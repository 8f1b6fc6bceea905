"""`build` and `lower`."""

from __future__ import annotations

import importlib
from typing import Any, Final, Protocol

from tscript.codegen.abi import KernelAbi
from tscript.driver.dump import dump_native, function_dump
from tscript.ir.expr import IntImm
from tscript.ir.function import IRModule, PrimFunc
from tscript.lower.pipeline import CPU_PIPELINE, Watch, lower_module
from tscript.runtime.fastcall import is_available
from tscript.runtime.function import CompiledFunction
from tscript.runtime.module import Module
from tscript.support.config import current
from tscript.support.errors import BuildError
from tscript.target.target import Target

TargetLike = str | dict[str, Any] | Target | None
_OPT_LEVEL: Final = 3


class _Backend(Protocol):
    """What a back end's module offers; it is imported when it is first needed."""

    def emit_module(self, mod: IRModule, python_calls: bool) -> Any:
        """The code of a lowered module."""
        ...

    def CompiledModule(self, code: Any, mcpu: str, mattr: list[str], level: int) -> Any:
        """The code made runnable."""
        ...


def _backend() -> _Backend:
    # LLVM is large: a program that only prints or interprets must not load it.
    return importlib.import_module("tscript.codegen.llvm.module")  # pyright: ignore[reportReturnType]


def as_target(target: TargetLike) -> Target:
    """The target meant: the argument, else the current one, else this machine's CPU."""
    return Target(target) if target is not None else Target.current() or Target("llvm")


def as_module(program: IRModule | PrimFunc) -> IRModule:
    """A module, or a function as a module of its own. Raises TypeError for anything else."""
    if isinstance(program, IRModule):
        return program
    if isinstance(program, PrimFunc):  # pyright: ignore[reportUnnecessaryIsInstance]
        public = program if "global_symbol" in program.attrs else program.with_attr("global_symbol", "main")
        return IRModule.from_expr(public)
    mod = getattr(program, "mod", None)
    if isinstance(mod, IRModule):
        return mod
    raise TypeError(
        f"a {type(program).__name__} cannot be built; pass a function made by @T.prim_func, a module made by "
        "@I.ir_module, or a schedule"
    )


def lower(program: IRModule | PrimFunc, target: TargetLike = None, *, watch: Watch | None = None) -> IRModule:
    """The program as plain loops over flat memory, as the back end of `target` takes it.

    `watch(name, func)` is called after each pass. Raises LoweringError for what has no such form.
    """
    _require_cpu(as_target(target))
    return _lower(as_module(program), watch)


def build(program: IRModule | PrimFunc, target: TargetLike = None) -> Module:
    """Compile a function or module into machine code.

    `lib = build(mod, target="llvm")`, then `lib["name"](a, b, c)`. Functions without `global_symbol` are
    private: others of the module can call them. May be called from several threads.

    Raises LoweringError or BuildError for a program that has no native form, ValueError for a bad target.
    """
    where = as_target(target)
    _require_cpu(where)
    mod = as_module(program)
    backend = _backend()
    code = backend.emit_module(_lower(mod), is_available())
    level = int(where.get_attr("opt-level", _OPT_LEVEL))
    compiled = backend.CompiledModule(code, where.mcpu, where.mattr, level)
    if current().dump:
        dump_native(compiled.source("ll"))
    kernels: list[KernelAbi] = [k for k in code.kernels if k.is_public]
    functions = {
        k.name: CompiledFunction(
            k, compiled.address(k.name), code.failures, compiled, compiled.python_call(k.name), where.features
        )
        for k in kernels
    }
    return Module(functions, compiled, _entry(mod, kernels), where.kind.name, where)


def _lower(mod: IRModule, watch: Watch | None = None) -> IRModule:
    def watch_of(name: str, func: PrimFunc) -> Watch | None:
        watches = [w for w in (function_dump(name, func), watch) if w is not None]

        def show(step: str, lowered: PrimFunc) -> None:
            for w in watches:
                w(step, lowered)

        return show if watches else None

    return lower_module(mod, CPU_PIPELINE, watch_of)


def _require_cpu(target: Target) -> None:
    if target.kind.name != "llvm":
        raise BuildError(f'there is no code generator for target {target.kind.name!r} yet\n  try: target="llvm"')


def _entry(mod: IRModule, kernels: list[KernelAbi]) -> str | None:
    if len(kernels) == 1:
        return kernels[0].name
    for k in kernels:
        flag = mod[k.name].attrs.get("tir.is_entry_func")
        if isinstance(flag, IntImm) and flag.value:
            return k.name
    return "main" if any(k.name == "main" for k in kernels) else None
