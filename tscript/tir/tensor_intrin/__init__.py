"""Tensor intrinsics by kind of hardware, under TVM's names. Importing this registers all of them.

>>> from tscript.tir import TensorIntrin
>>> from tscript.tir.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN
>>> TensorIntrin.get(VNNI_DOT_16x4_INTRIN).desc.__name__
'dot_product'
"""

from __future__ import annotations

from tscript.tir.tensor_intrin import arm_cpu, cuda, dot_product_common, x86

__all__ = ["arm_cpu", "cuda", "dot_product_common", "x86"]
