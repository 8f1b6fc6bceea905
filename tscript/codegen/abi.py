"""How a kernel is called: what each parameter is, which symbolic sizes come with the arrays, what is returned.

A kernel gets one slot of eight bytes for each parameter (the address of an array's first element, or a
scalar), then one for each variable that the declarations of its buffers bind: extents, strides, offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType
from tscript.ir.expr import Call, IntImm, Op, PointerType, PrimExpr, PrimType, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.occurrences import variables
from tscript.ir.stmt import BufferStore
from tscript.support.errors import BuildError
from tscript.support.wording import with_article


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its variable, its buffer if it is an array, whether the kernel writes that array."""

    var: Var
    buffer: Buffer | None
    written: bool = False

    @property
    def name(self) -> str:
        """The name users know: the buffer's, where there is one."""
        return self.var.name if self.buffer is None else self.buffer.name


@dataclass(frozen=True, slots=True)
class KernelAbi:
    """The interface of one kernel."""

    name: str
    parameters: tuple[Parameter, ...]
    symbols: tuple[Var, ...]
    returns: DataType | None
    no_alias: bool
    is_public: bool


def kernel_abi(name: str, func: PrimFunc) -> KernelAbi:
    """The interface of `func`. Raises BuildError where a symbolic size cannot be read off any argument."""
    written, returned = _effects(func)
    parameters = tuple(
        Parameter(v, func.buffer_map.get(v), (func.buffer_map[v].data if v in func.buffer_map else v) in written)
        for v in func.params
    )
    symbols = _bound_symbols(name, func)
    no_alias = func.attrs.get("tir.noalias")
    is_no_alias = isinstance(no_alias, IntImm) and bool(no_alias.value)
    return KernelAbi(
        name, parameters, symbols, _return_type(name, returned), is_no_alias, "global_symbol" in func.attrs
    )


def _bound_symbols(name: str, func: PrimFunc) -> tuple[Var, ...]:
    """Variables that stand alone as an extent, stride or offset of a parameter, in order."""
    bound: dict[Var, None] = {}
    used: dict[Var, Buffer] = {}
    scalars = {v for v in func.params if v not in func.buffer_map}
    for v in func.params:
        buffer = func.buffer_map.get(v)
        if buffer is None:
            continue
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(e, Var):
                bound.setdefault(e)
            else:
                for var in variables(e):
                    used.setdefault(var, buffer)
    for var, buffer in used.items():
        if var not in bound and var not in scalars:
            raise BuildError(
                f"{name}: the size `{var.name}` in the declaration of buffer {buffer.name} cannot be inferred, since "
                f"no buffer has it as a whole dimension\n  try: pass it as a parameter, as in `{var.name}: T.int32`"
            )
    return tuple(v for v in bound if v not in scalars)


def _effects(func: PrimFunc) -> tuple[dict[Var, None], list[PrimExpr]]:
    """Data variables that are stored to, and the values returned."""
    written: dict[Var, None] = {}
    returned: list[PrimExpr] = []

    def visit(node: object) -> None:
        if isinstance(node, BufferStore):
            written.setdefault(node.buffer.data)
        elif isinstance(node, Call) and isinstance(node.op, Op):
            if node.op.name == "tir.ret":
                returned.append(node.args[0])
            elif node.op.name == "tir.tvm_access_ptr":
                data, mask = node.args[1], node.args[4]
                if isinstance(data, Var) and isinstance(mask, IntImm) and mask.value & 2:
                    written.setdefault(data)

    post_order_visit(func.body, visit)
    return written, returned


def _return_type(name: str, returned: list[PrimExpr]) -> DataType | None:
    if not returned:
        return None
    first = returned[0].dtype
    for e in returned[1:]:
        if e.dtype is not first:
            raise BuildError(
                f"{name} returns {with_article(first)} in one place and {with_article(e.dtype)} in another; "
                "cast one of them"
            )
    if first.lanes != 1 or first.is_handle:
        raise BuildError(f"{name} returns {with_article(first)}; a kernel returns one number, or nothing")
    return first


def pointee(var: Var) -> DataType | None:
    """The element type of a pointer parameter, where its declaration tells it."""
    annotation = var.type_annotation
    if isinstance(annotation, PointerType) and isinstance(annotation.element_type, PrimType):
        return annotation.element_type.dtype
    return None
