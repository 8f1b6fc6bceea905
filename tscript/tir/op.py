"""Functions that build expressions: arithmetic, mathematics, calls of intrinsics."""

# ruff: noqa: F403

from __future__ import annotations

from tscript.parser.dialect import arithmetic, gpu, math, memory
from tscript.parser.dialect.arithmetic import *
from tscript.parser.dialect.calls import (
    call_cpacked,
    call_cpacked_lowered,
    call_extern,
    call_intrin,
    call_kernel,
    call_llvm_intrin,
    call_llvm_pure_intrin,
    call_packed,
    call_packed_lowered,
    call_pure_extern,
)
from tscript.parser.dialect.control import (
    all,
    any,
    assume,
    cast,
    comm_reducer,
    if_then_else,
    ignore_loop_partition,
    likely,
    reinterpret,
    ret,
    type_annotation,
    undef,
)
from tscript.parser.dialect.gpu import *
from tscript.parser.dialect.math import *
from tscript.parser.dialect.memory import *
from tscript.parser.dialect.vectors import (
    broadcast,
    dp4a,
    get_active_lane_mask,
    ramp,
    vectorcombine,
    vectorhigh,
    vectorlow,
    vscale,
)

indexdiv = arithmetic.floordiv
indexmod = arithmetic.floormod

__all__ = [
    "all", "any", "assume", "broadcast", "call_cpacked", "call_cpacked_lowered", "call_extern", "call_intrin",
    "call_kernel", "call_llvm_intrin", "call_llvm_pure_intrin", "call_packed", "call_packed_lowered",
    "call_pure_extern", "cast", "comm_reducer", "dp4a", "get_active_lane_mask", "if_then_else",
    "ignore_loop_partition", "indexdiv", "indexmod", "likely", "ramp", "reinterpret", "ret", "type_annotation",
    "undef", "vectorcombine", "vectorhigh", "vectorlow", "vscale",
]  # fmt: skip
__all__ += arithmetic.__all__
__all__ += gpu.__all__
__all__ += math.__all__
__all__ += memory.__all__
