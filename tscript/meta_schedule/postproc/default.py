"""The postprocessors that targets get by default."""

from __future__ import annotations

from tscript.meta_schedule.postproc.disallow_dynamic_loop import DisallowDynamicLoop
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.meta_schedule.postproc.rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from tscript.meta_schedule.postproc.rewrite_reduction_block import RewriteReductionBlock


def llvm() -> list[Postproc]:
    """For any CPU."""
    return [DisallowDynamicLoop(), RewriteParallelVectorizeUnroll(), RewriteReductionBlock()]


for word in ("llvm", "vnni", "avx512", "asimd", "dotprod"):
    Postproc.register_kind(word, llvm)
