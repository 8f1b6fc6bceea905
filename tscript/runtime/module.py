"""Built modules."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from typing import Any

from tscript.runtime.container import write
from tscript.runtime.device import Device, cpu
from tscript.runtime.export import Code, exported
from tscript.runtime.function import CompiledFunction
from tscript.runtime.timing import TimeEvaluator
from tscript.support.wording import kind_of
from tscript.target.target import Target


class Module:
    """Functions in machine code, by name: `lib["main"](a, b, c)`; `lib(a, b, c)` calls the entry function."""

    def __init__(
        self,
        functions: Mapping[str, CompiledFunction],
        code: Code,
        entry: str | None,
        type_key: str,
        target: Target | None = None,
    ) -> None:
        self._functions = dict(functions)
        self._callables = {name: f.fastest() for name, f in functions.items()}
        self._code = code
        self._entry = entry
        self.type_key = type_key
        self.target = Target(type_key) if target is None else target
        self.imported_modules: list[Module] = []

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"functions of a module are named by text, not by {name!r}")
        return self.get_function(name)

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """The function `name`. Raises AttributeError, listing close matches, if there is none."""
        found = self._callables.get(name)
        if found is None and query_imports:
            found = next(
                (m.get_function(name, True) for m in self.imported_modules if m.implements_function(name, True)), None
            )
        if found is not None:
            return found
        close = difflib.get_close_matches(name, self._functions, 3)
        hint = (
            f"did you mean {' or '.join(map(repr, close))}?"
            if close
            else f"it has: {', '.join(self._functions) or 'none'}"
        )
        raise AttributeError(f"the module has no function {name!r}; {hint}")

    def _compiled(self, name: str) -> CompiledFunction:
        self.get_function(name)
        return self._functions[name]

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether the module has a function `name`."""
        return name in self._functions or (
            query_imports and any(m.implements_function(name, True) for m in self.imported_modules)
        )

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the functions."""
        return tuple(self._functions)

    @property
    def entry_name(self) -> str:
        """Name of the entry function. Raises AttributeError where several functions could be meant."""
        if self._entry is None:
            raise AttributeError(f"the module has no single entry function; choose one of {', '.join(self._functions)}")
        return self._entry

    @property
    def entry_func(self) -> Callable[..., Any]:
        """The function called by `lib(...)`: the only one, or the one called `main`."""
        return self._callables[self.entry_name]

    def __call__(self, *args: Any) -> Any:
        return self.entry_func(*args)

    def get_source(self, fmt: str = "") -> str:
        """The code: "ll" (default) is LLVM IR after optimisation, "asm" or "s" assembly. ValueError otherwise."""
        kind = {"": "ll", "ll": "ll", "s": "asm", "asm": "asm"}.get(fmt)
        if kind is None:
            raise ValueError(f"there is no source in the format {fmt!r}; choose 'll' or 'asm'")
        return self._code.source(kind)

    def import_module(self, module: Module) -> None:
        """Let `get_function(name, query_imports=True)` look into another module as well; both are exported together.

        Raises TypeError for what is no module, ValueError for one that imports this one.
        """
        if not isinstance(module, Module):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a module imports modules, not {kind_of(module)}")
        reached = [module]
        for m in reached:
            if m is self:
                raise ValueError(
                    f"{module!r} imports {self!r} already, and modules cannot import each other in a circle"
                )
            reached += [i for i in m.imported_modules if all(i is not r for r in reached)]
        self.imported_modules.append(module)

    def clear_imports(self) -> None:
        """Forget all imported modules."""
        self.imported_modules.clear()

    def export_library(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, which `tscript.load_module` opens where there is no compiler.

        The file holds machine code, the interfaces of the functions with all that their checks need, and the
        sources that `get_source` shows; it serves machines of this kind that have the CPU features of the target.
        The file appears complete or not at all. Raises OSError where it cannot be written.
        """
        write(path, self._exported())

    def _exported(self) -> bytes:
        imports = [m._exported() for m in self.imported_modules]
        return exported(self._functions, self._code, self._entry, self.target, imports)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str | Callable[..., object] = "",
    ) -> TimeEvaluator:
        """A timer of the function `func_name`; calling it with arguments gives a `BenchmarkResult`.

        `number` calls make one figure, `repeat` figures are taken; `number` grows until a figure covers
        `min_repeat_ms`. Before each figure `f_preproc(*args)` is called and `cache_flush_bytes` bytes are
        written; after every `repeats_to_cooldown` figures it sleeps `cooldown_interval_ms`.
        """
        return TimeEvaluator(
            self._compiled(func_name), dev or cpu(), number, repeat, min_repeat_ms, limit_zero_time_iterations,
            cooldown_interval_ms, repeats_to_cooldown, cache_flush_bytes, f_preproc,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Module({self.type_key}: {', '.join(self._functions)})"
