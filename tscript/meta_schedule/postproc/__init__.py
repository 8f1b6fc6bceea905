"""What every sampled schedule goes through."""

from tscript.meta_schedule.postproc import default
from tscript.meta_schedule.postproc.disallow_async_strided_mem_copy import DisallowAsyncStridedMemCopy
from tscript.meta_schedule.postproc.disallow_dynamic_loop import DisallowDynamicLoop
from tscript.meta_schedule.postproc.layout_blocks import lay_out, remove_layout_blocks
from tscript.meta_schedule.postproc.postproc import Postproc, PyPostproc
from tscript.meta_schedule.postproc.rewrite_cooperative_fetch import RewriteCooperativeFetch
from tscript.meta_schedule.postproc.rewrite_layout import RewriteLayout
from tscript.meta_schedule.postproc.rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from tscript.meta_schedule.postproc.rewrite_reduction_block import RewriteReductionBlock
from tscript.meta_schedule.postproc.rewrite_tensorize import RewriteTensorize
from tscript.meta_schedule.postproc.rewrite_unbound_block import RewriteUnboundBlock
from tscript.meta_schedule.postproc.verify_gpu_code import VerifyGPUCode
from tscript.meta_schedule.postproc.verify_vtcm_limit import VerifyVTCMLimit

__all__ = [
    "DisallowAsyncStridedMemCopy",
    "DisallowDynamicLoop",
    "Postproc",
    "PyPostproc",
    "RewriteCooperativeFetch",
    "RewriteLayout",
    "RewriteParallelVectorizeUnroll",
    "RewriteReductionBlock",
    "RewriteTensorize",
    "RewriteUnboundBlock",
    "VerifyGPUCode",
    "VerifyVTCMLimit",
    "default",
    "lay_out",
    "remove_layout_blocks",
]
