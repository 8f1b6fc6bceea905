"""What code is generated for: target kinds, their attributes, tags, the current target.

>>> from tscript.target import Target
>>> with Target("llvm -num-cores=4"):
...     print(Target.current())
llvm -keys=cpu -num-cores=4
"""

from __future__ import annotations

from tscript.target import programs, tag
from tscript.target.kinds import TargetKind
from tscript.target.named import (
    adreno,
    arm_cpu,
    bifrost,
    cuda,
    hexagon,
    intel_graphics,
    mali,
    rasp,
    riscv_cpu,
    rocm,
    stm32,
)
from tscript.target.tag import list_tags, register_tag
from tscript.target.target import Target

__all__ = [
    "Target", "TargetKind", "adreno", "arm_cpu", "bifrost", "cuda", "hexagon", "intel_graphics", "list_tags", "mali",
    "programs", "rasp", "register_tag", "riscv_cpu", "rocm", "stm32", "tag",
]  # fmt: skip
