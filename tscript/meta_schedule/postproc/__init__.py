"""What every sampled schedule goes through."""

from tscript.meta_schedule.postproc import default
from tscript.meta_schedule.postproc.disallow_dynamic_loop import DisallowDynamicLoop
from tscript.meta_schedule.postproc.layout_blocks import lay_out, remove_layout_blocks
from tscript.meta_schedule.postproc.postproc import Postproc, PyPostproc
from tscript.meta_schedule.postproc.rewrite_layout import RewriteLayout
from tscript.meta_schedule.postproc.rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from tscript.meta_schedule.postproc.rewrite_reduction_block import RewriteReductionBlock
from tscript.meta_schedule.postproc.rewrite_tensorize import RewriteTensorize

__all__ = [
    "DisallowDynamicLoop",
    "Postproc",
    "PyPostproc",
    "RewriteLayout",
    "RewriteParallelVectorizeUnroll",
    "RewriteReductionBlock",
    "RewriteTensorize",
    "default",
    "lay_out",
    "remove_layout_blocks",
]
