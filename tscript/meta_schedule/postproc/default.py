"""The postprocessors that targets get by default."""

from __future__ import annotations

from tscript.meta_schedule.postproc.disallow_dynamic_loop import DisallowDynamicLoop
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.meta_schedule.postproc.rewrite_cooperative_fetch import RewriteCooperativeFetch
from tscript.meta_schedule.postproc.rewrite_layout import RewriteLayout
from tscript.meta_schedule.postproc.rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from tscript.meta_schedule.postproc.rewrite_reduction_block import RewriteReductionBlock
from tscript.meta_schedule.postproc.rewrite_tensorize import RewriteTensorize
from tscript.meta_schedule.postproc.rewrite_unbound_block import RewriteUnboundBlock
from tscript.meta_schedule.postproc.verify_gpu_code import VerifyGPUCode
from tscript.meta_schedule.postproc.verify_vtcm_limit import VerifyVTCMLimit


def _cpu() -> list[Postproc]:
    return [DisallowDynamicLoop(), RewriteParallelVectorizeUnroll(), RewriteReductionBlock()]


def llvm() -> list[Postproc]:
    """For any CPU."""
    return [*_cpu(), RewriteLayout()]


def with_intrin() -> list[Postproc]:
    """For CPUs that have intrinsics."""
    return [*_cpu(), RewriteTensorize(vectorize_init_loop=True), RewriteLayout()]


def hexagon() -> list[Postproc]:
    """For Hexagon processors."""
    return [*llvm(), VerifyVTCMLimit()]


def cuda() -> list[Postproc]:
    """For GPUs."""
    return [
        DisallowDynamicLoop(),
        RewriteCooperativeFetch(),
        RewriteUnboundBlock(max_threadblocks=256),
        RewriteParallelVectorizeUnroll(),
        RewriteReductionBlock(),
        VerifyGPUCode(),
    ]


def tensorcore() -> list[Postproc]:
    """For GPUs with matrix units."""
    return [*cuda(), RewriteTensorize(vectorize_init_loop=False)]


Postproc.register_kind("hexagon", hexagon)
Postproc.register_kind("cuda", cuda)
Postproc.register_kind("cuda-tensorcore", tensorcore)
for word, parts in (("llvm", llvm), *((w, with_intrin) for w in ("vnni", "avx512", "asimd", "dotprod"))):
    Postproc.register_kind(word, parts)
