"""What every sampled schedule goes through."""

from tscript.meta_schedule.postproc.disallow_dynamic_loop import DisallowDynamicLoop
from tscript.meta_schedule.postproc.postproc import Postproc, PyPostproc

__all__ = ["DisallowDynamicLoop", "Postproc", "PyPostproc"]
