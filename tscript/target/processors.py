"""What named CPUs can do: features, in LLVM's names, of the processors that programs are commonly tuned for."""

from __future__ import annotations

from typing import Final

PROCESSORS: Final[dict[str, frozenset[str]]] = {}
"""Vector and matrix features (with what x86-64 levels bring) by LLVM's name of the processor."""


def _add(names: str, base: str, more: str = "") -> None:
    features = PROCESSORS.get(base, frozenset()) | frozenset(more.split())
    for name in names.split():
        PROCESSORS[name] = features


_add("x86-64", "", "sse sse2")
_add("x86-64-v2 nehalem westmere", "x86-64", "sse3 ssse3 sse4.1 sse4.2 popcnt cx16")
_add("sandybridge", "x86-64-v2", "avx")
_add("ivybridge", "sandybridge", "f16c")
_add("x86-64-v3", "x86-64-v2", "avx avx2 bmi bmi2 f16c fma lzcnt movbe")
_add("haswell core-avx2 broadwell skylake znver1 znver2", "x86-64-v3")
_add("znver3", "x86-64-v3", "vaes vpclmulqdq")
_add("x86-64-v4", "x86-64-v3", "avx512f avx512bw avx512cd avx512dq avx512vl")
_add("skylake-avx512 skx", "x86-64-v4")
_add("cascadelake", "x86-64-v4", "avx512vnni")
_add("cooperlake", "cascadelake", "avx512bf16")
_add(
    "icelake-client icelake-server tigerlake", "cascadelake",
    "avx512vbmi avx512vbmi2 avx512ifma avx512bitalg avx512vpopcntdq gfni vaes vpclmulqdq",
)  # fmt: skip
_add(
    "sapphirerapids emeraldrapids", "icelake-server", "avx512bf16 avx512fp16 avxvnni amx-tile amx-int8 amx-bf16"
)  # fmt: skip
_add("graniterapids", "sapphirerapids", "amx-fp16")
_add("znver4", "icelake-server", "avx512bf16")
_add("znver5", "znver4", "avxvnni")
_add("alderlake raptorlake", "znver3", "avxvnni gfni")
_add("cortex-a53 cortex-a57 cortex-a72", "", "neon crc")
_add("cortex-a76 cortex-a78 neoverse-n1", "cortex-a72", "lse dotprod fullfp16")
_add("neoverse-v1", "neoverse-n1", "sve bf16 i8mm")
_add("neoverse-n2 neoverse-v2", "neoverse-v1", "sve2")
_add("apple-m1", "neoverse-n1")
_add("apple-m2", "apple-m1", "bf16 i8mm")

__all__ = ["PROCESSORS"]
