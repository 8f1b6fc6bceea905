"""Tensor intrinsics: what an instruction on tiles computes, and how a program calls for it, under a name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import ClassVar, Literal, overload

from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm, PrimExpr
from tscript.ir.function import PrimFunc
from tscript.ir.stmt import BlockRealize
from tscript.support.wording import kind_of

Pair = tuple[PrimFunc, PrimFunc]


class TensorIntrin:
    """A description and an implementation of the same computation on tiles.

    Both are functions of the same buffers. The body of each is one block: that of `desc` computes element by
    element, that of `impl` in any way, such as by an instruction of the hardware. `Schedule.tensorize` puts the
    second in the place of what has the form of the first.

    Raises TypeError for what is no function, ValueError for a pair that does not fit together.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def one_by_one(A: T.Buffer((4,), "float32", offset_factor=1), B: T.Buffer((4,), "float32", offset_factor=1)):
    ...     with T.block("root"):
    ...         T.reads(A[0:4])
    ...         T.writes(B[0:4])
    ...         for i in range(4):
    ...             with T.block("copy"):
    ...                 vi = T.axis.spatial(4, i)
    ...                 B[vi] = A[vi]
    >>> @T.prim_func
    ... def at_once(A: T.Buffer((4,), "float32", offset_factor=1), B: T.Buffer((4,), "float32", offset_factor=1)):
    ...     with T.block("root"):
    ...         T.reads(A[0:4])
    ...         T.writes(B[0:4])
    ...         B[0:4] = A[0:4]
    >>> TensorIntrin.register("copy_4", one_by_one, at_once, override=True)
    >>> TensorIntrin.get("copy_4").impl is at_once
    True
    """

    __slots__ = ("desc", "impl")

    _registry: ClassVar[dict[str, TensorIntrin | Callable[[], Pair]]] = {}

    def __init__(self, desc: PrimFunc, impl: PrimFunc) -> None:
        self.desc = desc
        self.impl = impl
        _require_pair(desc, impl)

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> None:
        """Make the pair known as `name`.

        `override` replaces the one of that name, if there is one; without it that is a ValueError. TypeError and
        ValueError also as for `TensorIntrin`.
        """
        made = TensorIntrin(desc, impl)
        _require_free(name, override)
        TensorIntrin._registry[name] = made

    @staticmethod
    def register_later(name: str, make: Callable[[], Pair], override: bool = False) -> None:
        """As `register`; the pair is made when it is first asked for, which keeps imports short."""
        _require_free(name, override)
        TensorIntrin._registry[name] = make

    @overload
    @staticmethod
    def get(name: str, allow_missing: Literal[False] = False) -> TensorIntrin: ...
    @overload
    @staticmethod
    def get(name: str, allow_missing: bool) -> TensorIntrin | None: ...
    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic called `name`. Without one: None with `allow_missing`, else ValueError."""
        found = TensorIntrin._registry.get(name)
        if found is None:
            if allow_missing:
                return None
            close = difflib.get_close_matches(str(name), TensorIntrin._registry)
            hint = f"similar names are {', '.join(close)}" if close else "register it with TensorIntrin.register"
            raise ValueError(
                f"no tensor intrinsic is registered as {name!r}; {hint}. Those of a kind of hardware are known "
                "once their module, as tscript.tir.tensor_intrin.x86, is imported"
            )
        if not isinstance(found, TensorIntrin):
            found = TensorIntrin._registry[name] = TensorIntrin(*found())
        return found

    @staticmethod
    def name_of(intrin: TensorIntrin) -> str | None:
        """The name under which an intrinsic is registered; None for one that is not."""
        return next((name for name, known in TensorIntrin._registry.items() if known is intrin), None)

    @staticmethod
    def names() -> list[str]:
        """The names that are registered, in order."""
        return sorted(TensorIntrin._registry)


def _require_free(name: str, override: bool) -> None:
    if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a tensor intrinsic is registered under a text, not under {name!r}")
    if name in TensorIntrin._registry and not override:  # pyright: ignore[reportPrivateUsage]
        raise ValueError(
            f"a tensor intrinsic {name!r} is registered already; give override=True to replace it, or another name"
        )


def _require_pair(desc: PrimFunc, impl: PrimFunc) -> None:
    for role, func in (("description", desc), ("implementation", impl)):
        if not isinstance(func, PrimFunc):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the {role} of a tensor intrinsic is a function, not {kind_of(func)}")
        for p in func.params:
            if p not in func.buffer_map:
                raise ValueError(
                    f"parameter {p.name} of the {role} {func.__name__} is no buffer; these take only buffers"
                )
        if not isinstance(func.body, BlockRealize) or func.body.block.iter_vars:
            raise ValueError(
                f"the body of the {role} {func.__name__} must be one block without axes, `with T.block('root')`"
            )
    if len(desc.params) != len(impl.params):
        raise ValueError(
            f"the description has {len(desc.params)} parameters, the implementation {len(impl.params)}; "
            "they must be the same buffers"
        )
    for p, q in zip(desc.params, impl.params, strict=True):
        a, b = desc.buffer_map[p], impl.buffer_map[q]
        if a.dtype is not b.dtype or not _same_shape(a, b) or a.scope() != b.scope():
            raise ValueError(
                f"the buffers {a.name} of the description and {b.name} of the implementation differ: "
                f"{_text(a)} and {_text(b)}"
            )


def _same_shape(a: Buffer, b: Buffer) -> bool:
    if len(a.shape) != len(b.shape):
        return False
    return all(_same_size(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def _same_size(x: PrimExpr, y: PrimExpr) -> bool:
    # Symbolic sizes are told apart only when they are bound.
    return not (isinstance(x, IntImm) and isinstance(y, IntImm)) or x.value == y.value


def _text(b: Buffer) -> str:
    return f"{b.dtype!s} ({', '.join(str(s) for s in b.shape)}) in {b.scope() or 'global'!r}"


__all__ = ["TensorIntrin"]
