"""Functions and modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tscript.ir.base import FrozenDict, Node, converted, nodes_below
from tscript.ir.buffer import Buffer
from tscript.ir.construct import convert_attr
from tscript.ir.expr import GlobalVar, PrimExpr, TupleType, Type, Var
from tscript.ir.stmt import Attrs, Stmt
from tscript.support.span import Span
from tscript.support.wording import kind_of


class PrimFunc(Node):
    """A kernel: parameters, the buffers some of them stand for, a body, attributes.

    `buffer_map` maps handle parameters to buffers. `attrs["global_symbol"]` is the public name;
    without it the function is private to its module.
    """

    params: tuple[Var, ...]
    body: Stmt
    ret_type: Type = TupleType(())
    buffer_map: dict[Var, Buffer] = FrozenDict()
    attrs: Attrs = FrozenDict()
    span: Span | None = None

    @staticmethod
    def _coerce(
        params: Iterable[Var | Buffer], body: Stmt, ret_type: Type | None, buffer_map: Mapping[Var, Buffer] | None,
        attrs: Mapping[str, Any] | None, span: Span | None,
    ) -> tuple[Any, ...]:  # fmt: skip
        made: list[Var] = []
        buffers: dict[Var, Buffer] = dict(buffer_map or {})
        for p in params:
            if isinstance(p, Buffer):
                handle = Var(p.name + "_handle", "handle")
                buffers[handle] = p
                made.append(handle)
            else:
                made.append(p)
        ret = TupleType(()) if ret_type is None else ret_type
        return tuple(made), body, ret, FrozenDict(buffers), convert_attrs(attrs), span

    def __reduce__(self) -> tuple[Any, ...]:
        # What is below goes first, each after its own parts, so that pickling never recurses deeply.
        return _unpickle_function, (nodes_below(self)[:-1], tuple(getattr(self, f) for f in self._fields))

    @property
    def __name__(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return str(self.attrs.get("global_symbol", "main"))

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> PrimFunc:
        """A copy with one attribute, or all of a mapping, set."""
        more = {key: value} if isinstance(key, str) else dict(key)
        return self.replace(attrs={**self.attrs, **more})

    def without_attr(self, key: str) -> PrimFunc:
        """A copy without the attribute `key`."""
        return self.replace(attrs={k: v for k, v in self.attrs.items() if k != key})

    def with_body(self, body: Stmt) -> PrimFunc:
        """A copy with another body."""
        return self.replace(body=body)

    def __call__(self, *args: Any) -> Any:
        raise TypeError(
            f"{self.__name__} is a program, not yet a function: build it with tscript.build(...), "
            "or run it with tscript.interp.run(...)"
        )


def _by_global_var(functions: Mapping[str, PrimFunc] | Mapping[GlobalVar, PrimFunc]) -> dict[GlobalVar, PrimFunc]:
    by_var: dict[GlobalVar, PrimFunc] = {}
    names: set[str] = set()
    for key, func in functions.items():
        if not isinstance(key, (str, GlobalVar)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"functions of a module are keyed by name, not by {key!r}")
        if not isinstance(func, Node):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{key} is {kind_of(func)}, not a PrimFunc")
        var = GlobalVar(key) if isinstance(key, str) else key
        if var.name_hint in names:
            raise ValueError(f"two functions of the module are called {var.name_hint!r}")
        names.add(var.name_hint)
        by_var[var] = func
    return FrozenDict(by_var)


def _unpickle_function(below: list[Node], fields: tuple[Any, ...]) -> PrimFunc:
    del below
    return PrimFunc(*fields)


class IRModule(Node):
    """Functions by name: a container that can change, of functions that cannot.

    Build it from a mapping of names (or GlobalVars) to functions; `mod["f"] = func` adds or replaces one.
    """

    functions: dict[GlobalVar, PrimFunc] = converted(converter=_by_global_var, default=FrozenDict())
    attrs: Attrs = FrozenDict()
    global_infos: Attrs = FrozenDict()

    @staticmethod
    def _coerce(
        functions: Mapping[Any, PrimFunc] | None,
        attrs: Mapping[str, Any] | None,
        global_infos: Mapping[str, Any] | None,
    ) -> tuple[Any, ...]:
        return _by_global_var(functions or {}), convert_attrs(attrs), FrozenDict(global_infos or {})

    @staticmethod
    def from_expr(func: PrimFunc) -> IRModule:
        """A module of one function, under its global symbol, or `main` without one."""
        return IRModule({func.__name__: func}) if isinstance(func, PrimFunc) else func  # pyright: ignore[reportUnnecessaryIsInstance]

    def get_global_var(self, name: str) -> GlobalVar:
        """The GlobalVar called `name`; KeyError, listing what there is, without one."""
        for var in self.functions:
            if var.name_hint == name:
                return var
        raise KeyError(
            f"the module has no function {name!r}; it has: {', '.join(v.name_hint for v in self.functions) or 'none'}"
        )

    def get_global_vars(self) -> list[GlobalVar]:
        """All function names, in order of definition."""
        return list(self.functions)

    def __getitem__(self, key: str | GlobalVar) -> PrimFunc:
        if isinstance(key, str):
            key = self.get_global_var(key)
        if key not in self.functions:
            raise KeyError(f"the module has no function {key.name_hint!r}")
        return self.functions[key]

    def __contains__(self, key: str | GlobalVar) -> bool:
        if isinstance(key, str):
            return any(v.name_hint == key for v in self.functions)
        return key in self.functions

    def __len__(self) -> int:
        return len(self.functions)

    def __iter__(self) -> Any:
        return iter(self.functions)

    def items(self) -> Any:
        """Pairs of GlobalVar and function."""
        return self.functions.items()

    def functions_items(self) -> Any:
        """Same as `items`."""
        return self.functions.items()

    def with_function(self, key: str | GlobalVar, func: PrimFunc) -> IRModule:
        """A module where the function `key` is `func` (added when there is none)."""
        var = (
            key
            if isinstance(key, GlobalVar)
            else next((v for v in self.functions if v.name_hint == key), GlobalVar(key))
        )
        return self.replace(functions={**self.functions, var: func})

    def __setitem__(self, key: str | GlobalVar, func: PrimFunc) -> None:
        object.__setattr__(self, "functions", self.with_function(key, func).functions)

    def update_func(self, key: str | GlobalVar, func: PrimFunc) -> None:
        """Put `func` in the module under `key`, in place."""
        self[key] = func

    def update(self, other: IRModule | Mapping[Any, PrimFunc]) -> None:
        """Put the functions of `other` in the module, in place, over those of the same name."""
        for key, func in (other.functions if isinstance(other, IRModule) else other).items():
            self[key.name_hint if isinstance(key, GlobalVar) else key] = func

    def with_attr(self, key: str, value: Any) -> IRModule:
        """A copy with one attribute set."""
        return self.replace(attrs={**self.attrs, key: value})


def convert_attrs(attrs: Mapping[str, Any] | None) -> FrozenDict:
    """Attribute values in the form the IR keeps: constants, text, expressions, tuples and dicts of these."""
    if attrs is None:
        return FrozenDict()
    return FrozenDict({k: convert_attr(v) for k, v in attrs.items()})


__all__ = ["Buffer", "IRModule", "PrimExpr", "PrimFunc", "convert_attrs"]
