"""Which LLVM intrinsics this machine has: LLVM ends the process over one that it cannot select."""

from __future__ import annotations

import platform
from typing import Any, Final

from tscript.support.errors import BuildError

_HOSTS: Final = {
    "x86_64": "x86", "amd64": "x86", "i686": "x86", "aarch64": "aarch64", "arm64": "aarch64", "ppc64le": "ppc",
    "riscv64": "riscv", "s390x": "s390", "loongarch64": "loongarch",
}  # fmt: skip
_TARGETS: Final = frozenset(
    "aarch64 amdgcn arm bpf dx hexagon loongarch mips nvvm ppc r600 riscv s390 spv ve wasm x86 xcore".split()
)

# Where the name of an intrinsic does not tell.
_FEATURES: Final = {
    "avx512": "avx512f",
    **{f"avx512.vpdp{n}.512": "avx512vnni" for n in ("busd", "busds", "wssd", "wssds")},
    **dict.fromkeys(
        "ldtilecfg sttilecfg tilerelease tilezero tileloadd64 tileloaddt164 tilestored64".split(), "amx-tile"
    ),
    **dict.fromkeys("tdpbssd tdpbsud tdpbusd tdpbuud".split(), "amx-int8"),
    "tdpbf16ps": "amx-bf16",
}


def require_available(name: str, features: str) -> None:
    """Raise BuildError for an intrinsic of another processor, or of a feature that `features` switches off."""
    parts = name.split(".")
    family = parts[1] if len(parts) > 1 else ""
    if family not in _TARGETS:
        return
    host = _HOSTS.get(platform.machine().lower(), "")
    if family != host:
        raise BuildError(
            f"the LLVM intrinsic {name} belongs to {family} processors, and this is none\n"
            "  try: an intrinsic without a processor in its name, such as llvm.fma.f32"
        )
    missing = {f[1:] for f in features.split(",") if f.startswith("-")}
    feature = _FEATURES.get(".".join(parts[2:])) or _FEATURES.get(parts[2], parts[2]) if len(parts) > 2 else ""
    if feature in missing:
        raise BuildError(f"the LLVM intrinsic {name} needs the CPU feature {feature}, which the target does not have")


def require_known(module: Any, name: str) -> None:
    """Raise BuildError for a name that LLVM, having parsed `module`, does not know as an intrinsic."""
    try:
        declared = module.get_function(name)
    except NameError:
        # LLVM corrected the types in the name, so it does know it.
        return
    if not list(declared.attributes):
        raise BuildError(f"LLVM has no intrinsic called {name}\n  try: its full name with types, as in llvm.fma.f32")
