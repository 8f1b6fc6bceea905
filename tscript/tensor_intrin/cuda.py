"""Tensor intrinsics of NVIDIA GPUs: dot products of bytes, and fragments of matrices."""

# ruff: noqa: F403

from __future__ import annotations

from tscript.tensor_intrin.dot_product import *
from tscript.tensor_intrin.m16n8k8 import *
from tscript.tensor_intrin.mma import *
from tscript.tensor_intrin.wmma import *
