"""Tensors and the operations that produce them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tscript.ir.base import FrozenDict
from tscript.ir.buffer import Buffer
from tscript.ir.construct import convert
from tscript.ir.dtype import DataType
from tscript.ir.expr import ExprLike, IntImm, IterVar, PrimExpr, ProducerLoad
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Stmt


class Tensor:
    """One output of an operation: something of a shape and a type whose elements can be read.

    `T[i, j]` and `T(i, j)` read an element; with fewer subscripts than dimensions, `T[i]` is a slice that
    takes the others. Two tensors are equal when operation and output number agree.
    """

    __slots__ = ("dtype", "op", "shape", "value_index")

    def __init__(self, shape: tuple[PrimExpr, ...], dtype: DataType, op: Operation, value_index: int) -> None:
        self.shape = shape
        self.dtype = dtype
        self.op = op
        self.value_index = value_index

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """Name of the operation; with several outputs, `.v0`, `.v1` ... is added."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    def __call__(self, *indices: ExprLike | IterVar) -> PrimExpr:
        if len(indices) != self.ndim:
            raise ValueError(
                f"tensor {self.name} takes {self.ndim} subscripts, but {len(indices)} were given; "
                f"its shape is {_shape_text(self.shape)}"
            )
        values = tuple(convert(i) for i in indices)
        for d, v in enumerate(values):
            if not v.dtype.is_integer:
                raise TypeError(f"subscript {d} of tensor {self.name} is {v.dtype!s}; subscripts are integers")
            size = self.shape[d]
            if isinstance(v, IntImm) and (v.value < 0 or (isinstance(size, IntImm) and v.value >= size.value > 0)):
                raise IndexError(
                    f"subscript {d} of tensor {self.name} is {v.value}, outside its shape {_shape_text(self.shape)}"
                )
        return ProducerLoad(self, values)

    def __getitem__(self, key: Any) -> Any:
        return TensorSlice(self, ())[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and self.op is other.op and self.value_index == other.value_index

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __iter__(self) -> Any:
        raise TypeError(f"tensor {self.name} cannot be iterated over; index it with axis variables")

    def __len__(self) -> int:
        raise TypeError(f"tensor {self.name} has no len(); its shape is {_shape_text(self.shape)}")

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Tensor({self.name}, shape={_shape_text(self.shape)}, dtype={self.dtype!s})"


def _shape_text(shape: Sequence[PrimExpr]) -> str:
    return "(" + ", ".join(str(s) for s in shape) + ("," if len(shape) == 1 else "") + ")"


class TensorSlice:
    """A tensor with its first subscripts given."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, key: Any) -> Any:
        keys: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)  # pyright: ignore[reportUnknownVariableType]
        if any(isinstance(k, slice) for k in keys):
            raise TypeError(f"tensor {self.tensor.name} takes no slices; a compute runs over single elements")
        indices = (*self.indices, *keys)
        if len(indices) < self.tensor.ndim:
            return TensorSlice(self.tensor, indices)
        return self.tensor(*indices)

    @property
    def dtype(self) -> DataType:
        """Type of an element."""
        return self.tensor.dtype

    def as_expr(self) -> PrimExpr:
        """The element, which needs all subscripts: raises ValueError for a slice."""
        return self.tensor(*self.indices)


@dataclass(eq=False)
class Operation:
    """What produces tensors. `attrs` become annotations of its block."""

    name: str
    tag: str
    attrs: Mapping[str, Any]

    @property
    def num_outputs(self) -> int:
        """Number of tensors it produces."""
        return 1

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors it reads, in order of first use."""
        return ()

    def output(self, index: int) -> Tensor:
        """Its output number `index`."""
        raise NotImplementedError


@dataclass(eq=False)
class PlaceholderOp(Operation):
    """An input."""

    shape: tuple[PrimExpr, ...]
    dtype: DataType

    def output(self, index: int) -> Tensor:
        """The input itself."""
        return Tensor(self.shape, self.dtype, self, index)


@dataclass(eq=False)
class ComputeOp(Operation):
    """Elements given by expressions of the axes."""

    axis: tuple[IterVar, ...]
    body: tuple[PrimExpr, ...]
    reduce_axis: tuple[IterVar, ...]

    @property
    def num_outputs(self) -> int:
        """Number of expressions."""
        return len(self.body)

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        """Extents of the axes."""
        return tuple(a.dom.extent for a in self.axis if a.dom is not None)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """Tensors read by the expressions, in order of first use."""
        return tuple(loaded_tensors(self.body))

    def output(self, index: int) -> Tensor:
        """The tensor of expression number `index`."""
        return Tensor(self.shape, self.body[index].dtype, self, index)


@dataclass(eq=False)
class ExternOp(Operation):
    """A statement that fills whole buffers."""

    inputs: tuple[Tensor, ...]
    input_buffers: tuple[Buffer, ...]
    output_buffers: tuple[Buffer, ...]
    body: Stmt

    @property
    def num_outputs(self) -> int:
        """Number of buffers it fills."""
        return len(self.output_buffers)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors behind its input buffers."""
        return tuple(dict.fromkeys(self.inputs))

    def output(self, index: int) -> Tensor:
        """The tensor of output buffer number `index`."""
        buffer = self.output_buffers[index]
        return Tensor(buffer.shape, buffer.dtype, self, index)


def loaded_tensors(exprs: Sequence[PrimExpr]) -> dict[Tensor, None]:
    """Tensors read in `exprs`, in order of first use."""
    found: dict[Tensor, None] = {}

    def look(node: object) -> None:
        if isinstance(node, ProducerLoad):
            found[node.producer] = None

    for e in exprs:
        post_order_visit(e, look)
    return found


def frozen_attrs(attrs: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Attributes as they are kept on an operation."""
    return FrozenDict(attrs or {})
