"""`NDArray`: an array of any data type of ours, on a device, that kernels and NumPy share."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from tscript.ir.dtype import DataType
from tscript.ir.semantics import NUMPY_TYPES, numpy_dtype
from tscript.runtime.address import data_address
from tscript.runtime.device import Device, cpu
from tscript.runtime.sharing import given_capsule, shared_array
from tscript.support.wording import kind_of

_ALIGNMENT = 64
_NAMES = {v: k for k, v in NUMPY_TYPES.items()}


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Our name of a NumPy type. Raises TypeError for one that kernels do not know."""
    name = _NAMES.get(dtype)
    if name is None:
        native = dtype.newbyteorder("=")
        hint = "; its byte order is not this machine's" if native != dtype and native in _NAMES else ""
        raise TypeError(f"kernels have no type for NumPy's {dtype}{hint}")
    return name


def _converted(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Numbers in another type. Raises TypeError for what are no numbers, or complex ones, which would lose a part."""
    if values.dtype == dtype:
        return values
    if values.dtype.kind in "cOUSMm":
        raise TypeError(f"an array of {dtype} takes numbers, not {values.dtype}")
    return values.astype(dtype)


def _allocate(shape: tuple[int, ...], dtype: DataType) -> np.ndarray[Any, Any]:
    full = shape if dtype.lanes == 1 else (*shape, dtype.lanes)
    kind = numpy_dtype(dtype)
    size = kind.itemsize
    for n in full:
        size *= n
    if size > (1 << 63) - 1:
        raise ValueError(
            f"an array of shape {shape} and type {dtype!s} takes {size} bytes, which is more than can be addressed"
        )
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    start = -data_address(raw) % _ALIGNMENT
    return raw[start : start + size].view(kind).reshape(full)


class NDArray:
    """An array: `shape`, `dtype` (text; `"float32x4"` for vectors), `device`.

    Made by `tscript.nd.array`, `empty`, `zeros` and `from_dlpack`. Slicing gives a view on the same memory,
    assignment to a slice writes through it; an array of indices copies, as in NumPy. `numpy()` copies,
    `np.asarray(a)` and DLPack share.

    >>> a = array([[1, 2, 3], [4, 5, 6]])
    >>> a[:, 1:].strides
    (3, 1)
    """

    __slots__ = ("_array", "device", "dtype", "shape")

    # NumPy's operators leave the choice to us instead of looping over elements.
    __array_priority__ = 100

    def __init__(self, array: np.ndarray[Any, Any], dtype: DataType, device: Device) -> None:
        self._array = array
        self.dtype = dtype
        self.device = device
        self.shape: tuple[int, ...] = array.shape if dtype.lanes == 1 else array.shape[:-1]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for s in self.shape:
            n *= s
        return n

    @property
    def strides(self) -> tuple[int, ...]:
        """How many elements lie between neighbours along each dimension, as in the declaration of a buffer."""
        steps = self._array.strides[: len(self.shape)]
        return tuple(s // (self.itemsize or 1) for s in steps)

    @property
    def itemsize(self) -> int:
        """Bytes of an element, all lanes of a vector included."""
        return self._array.itemsize * self.dtype.lanes

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.nbytes

    @property
    def byte_offset(self) -> int:
        """Bytes from the address that kernels get to the first element: a view has an address of its own."""
        return 0

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie side by side, the last dimension first."""
        return self._array.flags.c_contiguous

    @property
    def is_writable(self) -> bool:
        """Whether the memory may be written: not if it came from a read-only array."""
        return self._array.flags.writeable

    def reshape(self, *shape: int | Sequence[int]) -> NDArray:
        """The same memory in another shape; -1 stands for what is left.

        Raises ValueError where the number of elements differs, or the elements lie so that only a copy could do.
        """
        first = shape[0] if len(shape) == 1 else shape
        dims = (first,) if isinstance(first, int) else tuple(cast("Sequence[int]", first))
        lanes = () if self.dtype.lanes == 1 else (self.dtype.lanes,)
        made = self._array.reshape((*dims, *lanes))
        if made.size and not np.may_share_memory(made, self._array):
            raise ValueError(
                f"an array of shape {self.shape} and strides {self.strides} cannot be seen in the shape {dims} without "
                "a copy; use tscript.nd.array(a) first"
            )
        return NDArray(made, self.dtype, self.device)

    def memory(self) -> np.ndarray[Any, Any]:
        """The memory as a NumPy array, not copied (vectors have their lanes as a last dimension)."""
        return self._array

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy as a NumPy array (vectors have their lanes as a last dimension)."""
        return self._array.copy()

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Fill with the elements of an array-like of the same shape, converted. Returns this array."""
        values = source.memory() if isinstance(source, NDArray) else np.asarray(source)
        if values.shape != self._array.shape:
            raise ValueError(f"cannot fill an array of shape {self._array.shape} from one of shape {values.shape}")
        self._array[...] = _converted(values, self._array.dtype)
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy into another array, or to a device; the copy."""
        if isinstance(target, Device):
            return array(self, target)
        if not isinstance(target, NDArray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"the target of a copy is an NDArray or a device, not {kind_of(target)}; for a NumPy array "
                "use np.copyto(target, np.asarray(a))"
            )
        return target.copyfrom(self)

    def astype(self, dtype: str) -> NDArray:
        """A copy converted to another type."""
        return array(self, self.device, dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if dtype is not None and np.dtype(dtype) != self._array.dtype:
            if copy is False:
                raise ValueError(f"an array of {self.dtype!s} cannot be seen as {np.dtype(dtype)} without a copy")
            return self._array.astype(dtype)
        return self._array.copy() if copy else self._array

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if stream is not None:
            raise RuntimeError(f"{self.device} has no streams; leave out stream={stream!r}")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"an array on {self.device} cannot be given away as one on device {tuple(dl_device)}")
        given = self._array.copy() if copy else self._array
        return given_capsule(given, max_version is not None and max_version[0] >= 1)

    def __buffer__(self, flags: int) -> memoryview:
        # Python asks from 3.12 on.
        return memoryview(cast(Any, self._array))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.device_type, self.device.index

    def to_dlpack(self) -> Any:
        """A DLPack capsule of the first version that shares the memory. BufferError if that is read-only."""
        return self.__dlpack__()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if self.dtype.lanes > 1:
            return NDArray(self._vectors(key), self.dtype, self.device)
        part: Any = self._array[key]
        return NDArray(cast(Any, part), self.dtype, self.device) if isinstance(part, np.ndarray) else part

    def _vectors(self, key: Any) -> np.ndarray[Any, Any]:
        """The memory of some elements that are vectors; an index cannot take one apart."""
        wholes = self._array.view(np.dtype((np.void, self.itemsize)))[..., 0]
        keys: tuple[Any, ...] = cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)
        # With an ellipsis even a single element comes as a view.
        chosen = wholes[keys if any(k is ... for k in keys) else (*keys, ...)]
        return chosen[..., np.newaxis].view(self._array.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        values = value.memory() if isinstance(value, NDArray) else np.asarray(value)
        if self.dtype.lanes > 1:
            self._vectors(key)[...] = _converted(values, self._array.dtype)
        else:
            self._array[key] = _converted(values, self._array.dtype)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        return float(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __repr__(self) -> str:
        return f"<tscript.nd.NDArray shape={self.shape}, {self.dtype!s}, {self.device}>\n{self._array!r}"

    def __str__(self) -> str:
        return str(self._array)


def _require_cpu(where: Device) -> None:
    if not isinstance(where, Device):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the device of an array is one such as tscript.cpu(), not {where!r}; a type goes to dtype=")
    if where.kind != "cpu" or not where.exist:
        state = "is there, but arrays cannot be put on it yet" if where.exist else "does not exist on this machine"
        raise ValueError(f"{where} {state}; use tscript.cpu()")


def _dimensions(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, (str, bytes)):
        raise TypeError(f"a shape is a tuple of integers, not {shape!r}")
    try:
        return (operator.index(shape),) if hasattr(shape, "__index__") else tuple(map(operator.index, shape))
    except TypeError:
        raise TypeError(f"a shape is a tuple of integers, not {shape!r}") from None


def empty(shape: int | Sequence[int], dtype: str = "float32", device: Device | None = None) -> NDArray:
    """An array whose elements are not set. Its memory is aligned to 64 bytes.

    >>> empty((2, 3), "bfloat16").shape
    (2, 3)
    """
    where = cpu() if device is None else device
    _require_cpu(where)
    dims = _dimensions(shape)
    if any(d < 0 for d in dims):
        raise ValueError(f"the dimensions of an array are at least 0, not {dims}")
    kind = DataType(dtype)
    return NDArray(_allocate(dims, kind), kind, where)


def zeros(shape: int | Sequence[int], dtype: str = "float32", device: Device | None = None) -> NDArray:
    """An array of zeros."""
    made = empty(shape, dtype, device)
    made.memory()[...] = 0
    return made


def array(source: Any, device: Device | None = None, dtype: str | None = None) -> NDArray:
    """A copy of an array-like, in the type it has, or in `dtype`.

    >>> array([1.5, 2.0]).dtype
    'float64'
    """
    if isinstance(source, NDArray) and dtype is None:
        return empty(source.shape, source.dtype, device).copyfrom(source)
    values = source.memory() if isinstance(source, NDArray) else np.asarray(source)
    if dtype is None:
        return empty(values.shape, dtype_name(values.dtype.newbyteorder("=")), device).copyfrom(values)
    lanes = DataType(dtype).lanes
    shape = values.shape if lanes == 1 else values.shape[:-1]
    return empty(shape, dtype, device).copyfrom(values)


def from_dlpack(source: Any) -> NDArray:
    """An array that shares the memory of an object with `__dlpack__`, of its capsule, or with the buffer protocol.

    What is read-only there is read-only here, where the object can say so. Raises BufferError for memory of another
    device or that is not given away, TypeError for an object without memory or of a type that kernels lack.

    >>> numbers = np.arange(3)
    >>> shared = from_dlpack(numbers)
    >>> numbers[1] = 7
    >>> print(shared)
    [0 7 2]
    """
    shared = shared_array(source)
    return NDArray(shared, DataType(dtype_name(shared.dtype)), cpu())
