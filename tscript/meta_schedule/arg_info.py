"""What a function takes, as far as measuring it needs to know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tscript.ir.expr import IntImm
from tscript.ir.function import IRModule, PrimFunc
from tscript.support.wording import kind_of


class ArgInfo(ABC):
    """What one parameter takes."""

    @abstractmethod
    def as_json(self) -> list[Any]:
        """Lists, numbers and text that `from_json` reads back."""

    @staticmethod
    def from_json(json_obj: Any) -> ArgInfo:
        """The argument that a JSON form describes. Raises ValueError for what describes none.

        >>> ArgInfo.from_json(["TENSOR", "float32", [4, 4]])
        TensorInfo(dtype='float32', shape=(4, 4))
        """
        match json_obj:
            case ["TENSOR", str(dtype), [*shape]] if all(type(n) is int and n >= 0 for n in shape):
                return TensorInfo(dtype, tuple(shape))
            case _:
                raise ValueError(f'an argument is ["TENSOR", dtype, [extents]], not {json_obj!r}')

    @staticmethod
    def from_prim_func(func: PrimFunc) -> list[ArgInfo]:
        """What the parameters of a function take, in order.

        Raises ValueError for a parameter that is no buffer, or a buffer whose shape is not constant.
        """
        infos: list[ArgInfo] = []
        for i, param in enumerate(func.params):
            buffer = func.buffer_map.get(param)
            if buffer is None:
                raise ValueError(
                    f"parameter {i} of {func.__name__}, {param.name}, is no buffer: only functions of buffers can "
                    "be tuned; bind its value with `func.specialize` or pass it in a buffer of one element"
                )
            shape: list[int] = []
            for n in buffer.shape:
                if not isinstance(n, IntImm):
                    raise ValueError(
                        f"the shape of {buffer.name} is not constant ({n}): give its sizes values before tuning, for "
                        "example with `func.specialize`"
                    )
                shape.append(n.value)
            infos.append(TensorInfo(str(buffer.dtype), tuple(shape)))
        return infos

    @staticmethod
    def from_entry_func(mod: IRModule, remove_preproc: bool = True) -> list[ArgInfo]:
        """What the entry function of a module takes. `remove_preproc` is accepted for the original's sake: our
        preprocessing blocks never change parameters.
        """
        return ArgInfo.from_prim_func(entry_function(mod))


@dataclass(frozen=True)
class TensorInfo(ArgInfo):
    """A tensor: its element type and constant shape."""

    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))

    def as_json(self) -> list[Any]:
        """`["TENSOR", dtype, [extents]]`."""
        return ["TENSOR", self.dtype, list(self.shape)]


def entry_function(mod: IRModule | PrimFunc) -> PrimFunc:
    """The function that is measured: the only one, the one marked `tir.is_entry_func`, or `main`.

    Raises ValueError when none of these decides.
    """
    if isinstance(mod, PrimFunc):
        return mod
    if not isinstance(mod, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a module or a function is needed, not {kind_of(mod)}")
    functions = {v.name_hint: f for v, f in mod.functions.items()}
    if len(functions) == 1:
        return next(iter(functions.values()))
    for f in functions.values():
        flag = f.attrs.get("tir.is_entry_func")
        if isinstance(flag, IntImm) and flag.value:
            return f
    if "main" in functions:
        return functions["main"]
    raise ValueError(
        f"which function is the entry? The module has {', '.join(sorted(functions)) or 'none'}; name one `main` or "
        "give it the attribute tir.is_entry_func"
    )
