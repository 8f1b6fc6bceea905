"""What `build` and `lower` take, brought into one form: a module, its target, functions with targets of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tscript.analysis.host_access import GPU_KINDS, unbound_loops
from tscript.ir.function import IRModule, PrimFunc
from tscript.support.errors import BuildError
from tscript.support.wording import kind_of
from tscript.target.target import Target

TargetLike = str | Mapping[str, Any] | Target | None
Program = IRModule | PrimFunc | Sequence[Any] | Mapping[Any, Any]
"""A function, a module, a schedule, a list of these, or a mapping of targets to these."""


def as_target(target: TargetLike, host: TargetLike = None) -> Target:
    """The target meant: the argument, else the current one, else this machine's CPU; with `host`, if given."""
    if isinstance(target, (list, tuple)):
        raise TypeError(
            "a list stands where the target is expected; if these are the tensors of a te computation, make a "
            "function of them with te.create_prim_func and build that"
        )
    found = Target(target) if target is not None else Target.current() or Target("llvm")
    return found if host is None else found.with_host(Target(host))


def as_module(program: Any, name: str | None = None) -> IRModule:
    """A module; a function or a list of functions as a module of its own; the module of a schedule.

    `name` is the public name of a single function. Raises TypeError for anything else, ValueError for a name
    that cannot be given, or given twice.
    """
    if name is not None and (not isinstance(name, str) or not name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"the name of a function is text, at least one letter, not {name!r}")
    if isinstance(program, PrimFunc):
        public = program if name is None else program.with_attr("global_symbol", name)
        if "global_symbol" not in public.attrs:
            public = public.with_attr("global_symbol", "main")
        return IRModule.from_expr(public)
    if name is not None:
        raise ValueError(f"name={name!r} names a single function; functions of a module have names already")
    if isinstance(program, IRModule):
        return program
    if isinstance(program, (list, tuple)):
        return _joined(enumerate(program, 1))  # pyright: ignore[reportUnknownArgumentType]
    mod = getattr(program, "mod", None)
    if isinstance(mod, IRModule):
        return mod
    raise TypeError(
        f"{kind_of(program)} cannot be built; pass a function made by @T.prim_func, a module made by "
        "@I.ir_module, a schedule, a list of these, or a dict of targets to these"
    )


def _joined(programs: Iterable[tuple[object, Any]]) -> IRModule:
    """All functions of several programs, which are told apart in messages by what comes with them."""
    functions: dict[Any, PrimFunc] = {}
    where: dict[str, object] = {}
    for place, program in programs:
        if isinstance(program, PrimFunc) and "global_symbol" not in program.attrs:
            raise ValueError(
                f'function {place} of the list has no name; give it one with func.with_attr("global_symbol", "name")'
            )
        for var, func in as_module(program).functions.items():
            if var.name_hint in where:
                raise ValueError(
                    f"two functions are called {var.name_hint!r}, in {where[var.name_hint]} and in {place}; rename "
                    'one with func.with_attr("global_symbol", "name")'
                )
            functions[var] = func
            where[var.name_hint] = place
    if not functions:
        raise ValueError("there is no function to build; pass at least one")
    return IRModule(functions)


def bind_targets(
    program: Any, target: TargetLike = None, host: TargetLike = None, name: str | None = None
) -> tuple[IRModule, Target]:
    """The module to build and the target of all its functions that have no attribute `target`.

    Functions keep a target of their own, as a `Target`, where it differs from the module's. In a mapping of
    targets to programs the first target is that of the module.
    """
    if not isinstance(program, Mapping):
        main = as_target(target, host)
        return _with_own_targets(as_module(program, name), main), main
    if target is not None:
        raise ValueError("the targets are the keys of the dict, so there is no target= beside it")
    if name is not None:
        raise ValueError(f"name={name!r} names a single function; functions of a dict have names already")
    parts = [(as_target(t, host), as_module(p)) for t, p in program.items()]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if not parts:
        raise ValueError("there is no function to build; the dict is empty")
    main = parts[0][0]
    bound = ((t, _with_own_targets(mod, t, main)) for t, mod in parts)
    return _joined((f"the part for {str(t)!r}", mod) for t, mod in bound), main


def _with_own_targets(mod: IRModule, target: Target, main: Target | None = None) -> IRModule:
    """The module with the attribute `target` on the functions whose target is not `main` (`target` without it)."""
    main = target if main is None else main
    functions: dict[Any, PrimFunc] = {}
    for var, func in mod.functions.items():
        given = func.attrs.get("target")
        own = target if given is None else Target(given)
        if own.host is None and main.host is not None:
            own = own.with_host(main.host)
        if own != main:
            functions[var] = func.with_attr("target", own)
        else:
            functions[var] = func if given is None else func.without_attr("target")
    return mod.replace(functions=functions)


def target_of(func: PrimFunc, main: Target) -> Target:
    """The target of a function of a module bound to `main`."""
    own = func.attrs.get("target")
    return own if isinstance(own, Target) else main


def require_cpu(mod: IRModule, main: Target) -> None:
    """Raise BuildError, naming the functions, unless all code of a bound module is for a CPU that LLVM knows."""
    asked: dict[str, list[str]] = {}
    for var, func in mod.functions.items():
        asked.setdefault(target_of(func, main).kind.name, []).append(var.name_hint)
    if main.host is not None and main.host.kind.name != "llvm":
        asked.setdefault(main.host.kind.name, []).append("the host")
    for kind, names in asked.items():
        if kind != "llvm":
            advice = (
                'target="llvm", where threads of a block run one after another, or tscript.interp.run(func, ...)'
                if kind in GPU_KINDS
                else 'target="llvm"'
            )
            raise BuildError(
                f"there is no code generator for target {kind!r} yet, which {_listed(names)} would need\n"
                f"  try: {advice}{_left_to_host(mod, names) if kind in GPU_KINDS else ''}"
            )
    levels = {str(target_of(f, main).get_attr("opt-level")) for f in mod.functions.values()}
    if len(levels) > 1:
        raise BuildError("the functions of one build share the optimisation level; give all targets one -opt-level")


def _left_to_host(mod: IRModule, names: Sequence[str]) -> str:
    """A line about loops that no thread of a GPU would run, for all functions together."""
    left = {n: loops for n in names if (var := _named(mod, n)) is not None and (loops := unbound_loops(var))}
    if not left:
        return ""
    parts = [f"{', '.join(x or 'statements outside of loops' for x in loops)} in {n}" for n, loops in left.items()]
    shown = "; ".join(parts)
    return f'\n  note: no thread runs {shown}: bind loops first, as sch.bind(loop, "blockIdx.x")'


def _named(mod: IRModule, name: str) -> PrimFunc | None:
    return next((f for v, f in mod.functions.items() if v.name_hint == name), None)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


__all__ = ["Program", "TargetLike", "as_module", "as_target", "bind_targets", "require_cpu", "target_of"]
