"""Which default rules a target gets."""

from __future__ import annotations

from tscript.target.target import Target


def cuda_arch(target: Target) -> int:
    """The number of a CUDA target's architecture, 90 for sm_90a; 0 for other targets and for none.

    >>> cuda_arch(Target("cuda -arch=sm_90a")), cuda_arch(Target("llvm"))
    (90, 0)
    """
    if target.kind.name != "cuda":
        return 0
    digits = target.arch.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) if digits.isdecimal() else 0


def default_kind(target: Target) -> str:
    """The word of the lists of rules, postprocessors and mutators of a target.

    Raises ValueError for a target that no space exists for.

    >>> default_kind(Target("llvm -mcpu=x86-64 -num-cores 1"))
    'llvm'
    >>> default_kind(Target("llvm -mcpu=cascadelake -num-cores 1"))
    'vnni'
    """
    name = target.kind.name
    if name == "llvm":
        has = target.features
        if "avx512vnni" in has or "avxvnni" in has:
            return "vnni"
        if {"avx512f", "avx512bw"} <= has:
            return "avx512"
        if "dotprod" in has:
            return "dotprod"
        return "asimd" if "neon" in has and "arm_cpu" in target.keys else "llvm"
    if name == "hexagon":
        return "hexagon"
    if name == "cuda":
        return "cuda-tensorcore" if cuda_arch(target) >= 75 else "cuda"
    if name in ("rocm", "vulkan", "metal", "opencl") or "gpu" in target.keys:
        return "cuda"
    raise ValueError(
        f"no schedule rules exist for targets of kind {name!r}; give the space lists of your own (sch_rules, "
        "postprocs, mutator_probs)"
    )
