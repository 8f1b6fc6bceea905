"""Arrays and devices."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tscript
from tscript import nd

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
    "float8_e4m3fn", "float8_e5m2", "float32", "float64",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_type_keep_values_and_report_their_form(dtype: str) -> None:
    a = nd.array(np.array([[0, 1, 1], [1, 0, 1]]), dtype=dtype)
    assert (a.shape, a.dtype, a.ndim, a.size, a.device) == ((2, 3), dtype, 2, 6, tscript.cpu(0))
    assert a.numpy().astype(np.int64).tolist() == [[0, 1, 1], [1, 0, 1]]
    assert nd.array(a.numpy()).dtype == dtype


def test_memory_is_aligned_and_shared_with_numpy_without_a_copy() -> None:
    a = nd.zeros((3, 5))
    view = np.asarray(a)
    assert view.__array_interface__["data"][0] % 64 == 0
    view[1, 2] = 7
    assert a.numpy()[1, 2] == 7
    assert np.from_dlpack(a)[1, 2] == 7
    copied = a.numpy()
    copied[:] = 1
    assert a.numpy()[0, 0] == 0


def test_slices_are_views_and_can_be_assigned_to() -> None:
    a = nd.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    row = a[1]
    row[:] = np.array([9, 9, 9, 9])
    a[2, 0] = 5
    assert a.numpy()[1].tolist() == [9, 9, 9, 9] and a.numpy()[2, 0] == 5
    assert a[1:, ::2].shape == (2, 2)
    assert float(a[0, 1]) == 1
    a[:] = nd.zeros((3, 4))
    assert not a.numpy().any()


def test_copies_convert_and_refuse_other_shapes() -> None:
    a = nd.empty((4,), "bfloat16").copyfrom([1, 2, 3, 4.5])
    b = nd.empty((4,), "float32")
    a.copyto(b)
    assert b.numpy().tolist() == [1, 2, 3, 4.5]
    assert a.copyto(tscript.cpu()).dtype == "bfloat16"
    with pytest.raises(ValueError, match=r"shape \(4,\) from one of shape \(5,\)"):
        a.copyfrom(np.zeros(5))
    with pytest.raises(ValueError, match="at least 0"):
        nd.empty((-1,))
    with pytest.raises(ValueError, match="more than can be addressed"):
        nd.empty((1 << 40, 1 << 40))
    with pytest.raises(TypeError, match="complex64"):
        nd.array(np.zeros(2, np.complex64))


def test_printing_shows_form_and_values() -> None:
    a = nd.array(np.array([1.5, 2], ml_dtypes.bfloat16))
    assert repr(a) == "<tscript.nd.NDArray shape=(2,), bfloat16, cpu(0)>\narray([1.5, 2], dtype=bfloat16)"
    assert str(a) == "[1.5 2]"
    assert nd.zeros(()).shape == () and nd.zeros((0, 3)).size == 0


def test_devices_are_named_and_say_whether_they_exist() -> None:
    assert tscript.cpu().exist and str(tscript.cpu(0)) == "cpu(0)"
    assert isinstance(tscript.cuda(0).exist, bool) and not tscript.cuda(999).exist
    assert tscript.device("cuda:1") == tscript.cuda(1)
    assert tscript.device("llvm") == tscript.cpu()
    with pytest.raises(ValueError, match="unknown device kind 'tpu'"):
        tscript.device("tpu")
    with pytest.raises(ValueError, match=r"cuda\(999\) does not exist"):
        nd.empty((1,), device=tscript.cuda(999))


def address(a: Any) -> int:
    return np.asarray(a).__array_interface__["data"][0]


def test_form_and_layout_are_told_in_elements() -> None:
    a = nd.zeros((4, 6), "int16")
    assert (a.strides, a.itemsize, a.nbytes, a.byte_offset) == ((6, 1), 2, 48, 0)
    part = a[1:, ::2]
    assert part.strides == (6, 2) and not part.is_contiguous and a.is_contiguous
    assert address(part) == address(a) + 12
    assert a[::-1].strides == (-6, 1)
    v = nd.zeros((3, 2), "float32x4")
    assert (v.strides, v.itemsize, v.nbytes, v.ndim) == ((2, 1), 16, 96, 2)
    assert nd.zeros(()).strides == () and nd.zeros((0, 3)).is_contiguous


def test_another_shape_shares_the_memory_or_is_refused() -> None:
    a = nd.array(np.arange(12))
    for b in (a.reshape(3, 4), a.reshape((3, -1)), a.reshape([3, 4])):
        assert b.shape == (3, 4) and address(b) == address(a)
    a.reshape(3, 4)[2, 3] = 99
    assert a.numpy()[11] == 99
    assert a[::2].reshape(2, 3).strides == (6, 2)
    with pytest.raises(ValueError, match="without a copy; use tscript.nd.array"):
        a.reshape(3, 4)[:, :2].reshape(6)
    with pytest.raises(ValueError, match="reshape"):
        a.reshape(5)
    assert nd.zeros((2, 3), "int8x2").reshape(6).shape == (6,)
    assert nd.zeros((0, 3)).reshape(3, 0).shape == (3, 0)


def test_an_index_takes_no_vector_apart() -> None:
    v = nd.array(np.arange(24).reshape(3, 2, 4), dtype="int32x4")
    assert v.shape == (3, 2) and v[1].shape == (2,) and v[:, 0].shape == (3,)
    assert v[:, 0].numpy().tolist() == [[0, 1, 2, 3], [8, 9, 10, 11], [16, 17, 18, 19]]
    one = v[2, 1]
    assert one.shape == () and one.numpy().tolist() == [20, 21, 22, 23]
    one[()] = [1, 2, 3, 4]
    v[0] = 7
    v[..., 0][1] = 5
    assert v.numpy()[2, 1].tolist() == [1, 2, 3, 4] and (v.numpy()[0] == 7).all() and (v.numpy()[1, 0] == 5).all()
    with pytest.raises(IndexError):
        v[0, 0, 0]


def test_copies_go_to_arrays_and_devices_that_can_take_them() -> None:
    a, b = nd.array(np.arange(3.0)), nd.zeros((3,), "float16")
    assert a.copyto(b) is b and b.numpy().tolist() == [0, 1, 2]
    assert a.copyto(tscript.cpu(0)).numpy().tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="np.copyto"):
        a.copyto(np.zeros(3))
    if not tscript.cuda(0).exist:
        with pytest.raises(ValueError, match=r"cuda\(0\) does not exist"):
            a.copyto(tscript.cuda(0))
    assert a.astype("int8").numpy().tolist() == [0, 1, 2]
    assert not tscript.cpu(1).exist


def test_dlpack_goes_both_ways_without_a_copy_in_both_versions() -> None:
    a = nd.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    b = nd.from_dlpack(a)
    assert address(b) == address(a) and (b.shape, b.dtype) == ((2, 3), "float32")
    assert address(np.from_dlpack(a[:, 1:])) == address(a) + 4

    class First:
        def __dlpack__(self, stream: object = None) -> object:
            return a.to_dlpack()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    c = nd.from_dlpack(First())
    assert address(c) == address(a) and c.is_writable
    copied = np.from_dlpack(a, copy=True)
    assert address(copied) != address(a)
    assert a.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match=r"as one on device \(2, 0\)"):
        a.__dlpack__(dl_device=(2, 0))
    with pytest.raises(RuntimeError, match="no streams"):
        a.__dlpack__(stream=3)


def test_what_is_read_only_stays_so_and_the_first_version_refuses_it() -> None:
    frozen = np.arange(4)
    frozen.flags.writeable = False
    a = nd.from_dlpack(frozen)
    assert not a.is_writable and not np.from_dlpack(a).flags.writeable and address(a) == address(frozen)
    with pytest.raises(ValueError, match="read-only"):
        a[0] = 1
    with pytest.raises(BufferError):
        a.to_dlpack()
    assert nd.from_dlpack(np.arange(4)).is_writable


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_short_floats_keep_their_type_through_dlpack(dtype: str, version: tuple[int, int] | None) -> None:
    a = nd.array(np.array([[1.5, 2], [-4, 0]]), dtype=dtype)

    class Given:
        def __init__(self) -> None:
            self.capsule = a.__dlpack__(max_version=version)

        def __dlpack__(self, **_: object) -> object:
            return self.capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    given = Given()
    b = nd.from_dlpack(given)
    assert b.dtype == dtype and address(b) == address(a) and b.numpy().tolist() == [[1.5, 2], [-4, 0]]
    with pytest.raises(BufferError, match="used before"):
        nd.from_dlpack(given)
    # NumPy does not know the type, and says so instead of misreading it.
    with pytest.raises((BufferError, RuntimeError, TypeError)):
        np.from_dlpack(a)


def test_memory_lives_as_long_as_anyone_shares_it() -> None:
    class Owner(np.ndarray):
        pass

    source = np.arange(1000.0).view(Owner)
    gone: list[int] = []
    weakref.finalize(source, gone.append, 1)
    a = nd.from_dlpack(nd.from_dlpack(source))
    del source
    gc.collect()
    assert not gone and a.numpy()[999] == 999
    capsule = a.to_dlpack()
    del a
    gc.collect()
    assert not gone
    del capsule
    gc.collect()
    assert gone == [1]


def test_buffers_of_python_are_shared_and_odd_objects_refused() -> None:
    raw = bytearray(8)
    a = nd.from_dlpack(memoryview(raw))
    a[3] = 7
    assert raw[3] == 7 and a.dtype == "uint8"
    assert not nd.from_dlpack(b"abc").is_writable
    if sys.version_info >= (3, 12):
        memoryview(nd.zeros((3,)))[0] = 1.0
    with pytest.raises(TypeError):
        nd.from_dlpack(3)
    with pytest.raises(TypeError, match="complex64"):
        nd.from_dlpack(np.zeros(2, np.complex64))

    class Elsewhere:
        def __dlpack__(self, **_: object) -> object:
            raise AssertionError("nothing is fetched from another device")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

    with pytest.raises(BufferError, match=r"on cuda\(1\), not on the CPU"):
        nd.from_dlpack(Elsewhere())


def test_sources_of_odd_kinds_are_copied_or_refused() -> None:
    assert nd.array(np.arange(3, dtype=">i4")).dtype == "int32"
    assert nd.array(np.asfortranarray(np.ones((2, 3)))).strides == (3, 1)
    assert nd.array(np.broadcast_to(np.int8(1), (2, 3))).numpy().sum() == 6
    with pytest.raises(TypeError, match="kernels have no type for NumPy's object"):
        nd.array(np.array([None]))
    with pytest.raises(ValueError, match="copy"):
        np.asarray(nd.zeros((2,), "int32"), dtype=np.float32, copy=False)


def test_kernels_share_arrays_of_other_libraries() -> None:
    from tscript.script import tir as T

    @T.prim_func
    def double(A: T.Buffer((4,), "bfloat16"), B: T.Buffer((4,), "bfloat16")):
        for i in range(4):
            B[i] = A[i] + A[i]

    double_ = tscript.build(double)
    found = 0
    for name in ("torch", "jax", "cupy"):
        library = sys.modules.get(name) or _installed(name)
        if library is None:
            continue
        found += 1
        EXCHANGES[name](library, double_)
    if not found:
        pytest.skip("none of torch, jax and cupy is installed")


def _installed(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        return None


def _with_torch(torch: Any, double: Any) -> None:
    a, b = torch.tensor([1.0, 2, 3, 4], dtype=torch.bfloat16), torch.zeros(4, dtype=torch.bfloat16)
    double(a, b)
    assert b.tolist() == [2, 4, 6, 8]
    mine = nd.array(np.arange(4), dtype="bfloat16")
    theirs = torch.from_dlpack(mine)
    theirs[0] = 9
    assert theirs.dtype == torch.bfloat16 and float(mine.numpy()[0]) == 9
    assert nd.from_dlpack(torch.zeros(2, 3).T).strides == (1, 3)


def _with_jax(jax: Any, double: Any) -> None:
    jnp = jax.numpy
    a, b = jnp.arange(4, dtype=jnp.bfloat16), nd.zeros((4,), "bfloat16")
    double(a, b)
    assert b.numpy().tolist() == [0, 2, 4, 6]
    assert jnp.from_dlpack(b).tolist() == [0, 2, 4, 6]


def _with_cupy(cupy: Any, double: Any) -> None:
    if tscript.cuda(0).exist:
        with pytest.raises(TypeError, match=r"argument 1 `A` of double: .*got one on cuda\(0\)"):
            double(cupy.zeros(4, cupy.float16), nd.zeros((4,), "bfloat16"))


EXCHANGES = {"torch": _with_torch, "jax": _with_jax, "cupy": _with_cupy}
