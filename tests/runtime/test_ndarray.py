"""Arrays and devices."""

from __future__ import annotations

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
