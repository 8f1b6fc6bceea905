"""Tensors of PyTorch as arguments and through DLPack, whichever of the two is imported first."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

SCRIPT = """
import sys
if sys.argv[1] == "torch":
    import torch
import tscript
from tscript.script import tir as T
import torch

def copier(dtype):
    @T.prim_func
    def main(A: T.Buffer((4, 3), dtype), B: T.Buffer((4, 3), dtype)):
        for i, j in T.grid(4, 3):
            B[i, j] = A[i, j]
    return tscript.build(main)["main"]

for dtype in "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 bool".split():
    kind = getattr(torch, dtype)
    a, b = (torch.arange(12).reshape(4, 3) % 2).to(kind), torch.zeros(4, 3, dtype=kind)
    copier(dtype)(a, b)
    assert torch.equal(a, b), dtype
    back = torch.from_dlpack(tscript.nd.from_dlpack(a))
    assert back.data_ptr() == a.data_ptr() and back.dtype is kind and torch.equal(back, a), dtype

for t in (torch.tensor(3.0), torch.zeros(0, 3), torch.ones(6, 4)[::2, 1:3]):
    assert torch.equal(torch.from_dlpack(tscript.nd.from_dlpack(t)), t)

run, good = copier("float32"), torch.zeros(4, 3)
for bad, told in [
    (torch.ones(4, 3, requires_grad=True), "detach"),
    (torch.ones(3, 4).t(), "compact row-major"),
    (torch.ones(4, 3, device="meta"), "cannot be shared"),
    (torch.ones(4, 3).to_sparse(), "cannot be shared"),
    (torch.ones(4, 3).double(), "expected float32[4, 3], got float64[4, 3]"),
]:
    try:
        run(bad, good)
    except tscript.error.CallError as e:
        assert told in str(e), e
    else:
        raise AssertionError(told)
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("first", ["torch", "tscript"])
def test_tensors_share_memory_and_those_that_cannot_are_told(first: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, first], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
