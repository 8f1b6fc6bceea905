"""Targets of families of devices, by function: `cuda()`, `arm_cpu("rasp4b64")`, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tscript.target.config import read_config, suggestion
from tscript.target.target import Target

Options = str | Sequence[str] | None


def _made(base: dict[str, Any], options: Options) -> Target:
    """The target of `base` and options in text form, which win over it."""
    text = " ".join([options] if isinstance(options, str) else (options or ()))
    return Target({**base, **read_config(f"{base['kind']} {text}")})


def cuda(model: str = "unknown", arch: str | None = None, options: Options = None) -> Target:
    """An NVIDIA GPU; `arch` such as "sm_90".

    >>> cuda(arch="sm_90", options="-max_threads_per_block=1024").attrs["max_threads_per_block"]
    1024
    """
    return _made({"kind": "cuda", "model": model, **({"arch": arch} if arch else {})}, options)


def rocm(model: str = "unknown", options: Options = None) -> Target:
    """An AMD GPU; `model` such as "gfx90a"."""
    return _made({"kind": "rocm", "model": model}, options)


def mali(model: str = "unknown", options: Options = None) -> Target:
    """An ARM Mali GPU of the Midgard generation, through OpenCL."""
    return _made({"kind": "opencl", "device": "mali", "model": model}, options)


def bifrost(model: str = "unknown", options: Options = None) -> Target:
    """An ARM Mali GPU of the Bifrost generation, through OpenCL."""
    return _made({"kind": "opencl", "device": "bifrost", "model": model}, options)


def intel_graphics(model: str = "unknown", options: Options = None) -> Target:
    """An Intel GPU, through OpenCL."""
    return _made({"kind": "opencl", "device": "intel_graphics", "model": model, "thread_warp_size": 16}, options)


def adreno(model: str = "unknown", options: Options = None, backend: str = "opencl") -> Target:
    """A Qualcomm Adreno GPU, through "opencl" or "vulkan"; ValueError for another `backend`."""
    if backend not in ("opencl", "vulkan"):
        raise ValueError(f"an Adreno GPU is reached through 'opencl' or 'vulkan', not {backend!r}")
    keys = ["adreno", *Target(backend).keys]
    return _made({"kind": backend, "device": "adreno", "keys": keys, "model": model}, options)


_ARM64: Final = {"mtriple": "aarch64-linux-gnu", "mattr": "+neon"}
_PHONE: Final = {"mtriple": "arm64-linux-android", "mattr": "+neon"}
_ARM32: Final = {"mtriple": "armv7a-linux-gnueabihf", "mattr": "+neon,+vfp4,+thumb2"}
_ARM_BOARDS: Final[dict[str, dict[str, str]]] = {
    "pixel2": {"model": "snapdragon835", **_PHONE},
    "mate10": {"model": "kirin970", **_PHONE},
    "mate10pro": {"model": "kirin970", **_PHONE},
    "p20": {"model": "kirin970", **_PHONE},
    "p20pro": {"model": "kirin970", **_PHONE},
    "rasp3b": {"model": "bcm2837", "mtriple": "armv7l-linux-gnueabihf", "mattr": "+neon"},
    "rasp4b": {"model": "bcm2711", "mtriple": "armv8l-linux-gnueabihf", "mattr": "+neon"},
    "rasp3b64": {"model": "bcm2837", **_ARM64},
    "rasp4b64": {"model": "bcm2711", **_ARM64},
    "rk3399": {"model": "rk3399", **_ARM64},
    "pynq": {"model": "pynq", "mtriple": "armv7a-linux-eabi", "mattr": "+neon"},
    "ultra96": {"model": "ultra96", **_ARM64},
    "beagleai": {"model": "beagleai", **_ARM32},
    "stm32mp1": {"model": "stm32mp1", **_ARM32},
    "thunderx": {"model": "thunderx", "mtriple": "aarch64-linux-gnu", "mattr": "+neon,+crc,+lse"},
}


def arm_cpu(model: str = "unknown", options: Options = None) -> Target:
    """An ARM CPU; `model` is a board or phone, such as "rasp4b64" or "rk3399", or any name.

    >>> arm_cpu("rasp4b64").mtriple, arm_cpu("rasp4b64").keys
    ('aarch64-linux-gnu', ('arm_cpu', 'cpu'))
    """
    known = _ARM_BOARDS.get(model, {"model": model})
    return _made({"kind": "llvm", "device": "arm_cpu", "keys": ["arm_cpu", "cpu"], **known}, options)


def rasp(options: Options = None) -> Target:
    """A Raspberry Pi 3 with a 32-bit system."""
    return arm_cpu("rasp3b", options)


_RISCV: Final = {
    "sifive-e31": ("riscv32-unknown-linux-gnu", "sifive-e31", "ilp32"),
    "sifive-e76": ("riscv32-unknown-linux-gnu", "sifive-e76", "ilp32"),
    "sifive-u54": ("riscv64-unknown-linux-gnu", "sifive-u54", "lp64d"),
    "sifive-u74": ("riscv64-unknown-linux-gnu", "sifive-u74", "lp64d"),
}


def riscv_cpu(model: str = "sifive-u54", options: Options = None) -> Target:
    """A RISC-V CPU: "sifive-e31", "sifive-e76", "sifive-u54" or "sifive-u74". ValueError for another model."""
    if model not in _RISCV:
        raise ValueError(f"unknown RISC-V model {model!r}; choose from {', '.join(_RISCV)}{suggestion(model, _RISCV)}")
    mtriple, mcpu, mabi = _RISCV[model]
    keys = ["riscv_cpu", "cpu"]
    base = {"kind": "llvm", "device": "riscv_cpu", "keys": keys, "model": model}
    return _made({**base, "mtriple": mtriple, "mcpu": mcpu, "mabi": mabi}, options)


_VTCM_MIB: Final = {"v65": 0, "v66": 0, "v67": 0, "v68": 4, "v69": 8, "v71": 8, "v73": 8, "v75": 8}


def hexagon(
    cpu_ver: str = "v68",
    options: Options = None,
    *,
    hvx: int = 128,
    num_cores: int = 4,
    vtcm_capacity: int | None = None,
) -> Target:
    """A Qualcomm Hexagon DSP of version "v65" to "v75", with vectors of `hvx` bytes (0: none).

    `vtcm_capacity` counts bytes of tightly coupled memory; None: what the version has. Raises ValueError for
    another version or another vector length.

    >>> hexagon("v69").vtcm_capacity
    8388608
    """
    if cpu_ver not in _VTCM_MIB:
        raise ValueError(f"unknown Hexagon version {cpu_ver!r}; choose from {', '.join(_VTCM_MIB)}")
    if hvx not in (0, 64, 128):
        raise ValueError(f"Hexagon vectors have 64 or 128 bytes (0 for none), not {hvx}")
    return _made(
        {
            "kind": "hexagon",
            "mtriple": "hexagon",
            "mcpu": f"hexagon{cpu_ver}",
            "mattr": [f"+hvx{cpu_ver}", f"+hvx-length{hvx}b"] if hvx else [],
            "num-cores": num_cores,
            "vtcm-capacity": _VTCM_MIB[cpu_ver] << 20 if vtcm_capacity is None else vtcm_capacity,
        },
        options,
    )


_STM32: Final = {
    "stm32H7xx": "cortex-m7", "stm32F7xx": "cortex-m7", "stm32L4xx": "cortex-m4", "stm32F4xx": "cortex-m4",
    "stm32F3xx": "cortex-m4", "stm32G0xx": "cortex-m0plus",
}  # fmt: skip


def stm32(series: str = "unknown", options: Options = None) -> Target:
    """An STM32 microcontroller by series, such as "stm32H7xx". ValueError for another series."""
    if series not in _STM32:
        raise ValueError(
            f"unknown STM32 series {series!r}; choose from {', '.join(_STM32)}{suggestion(series, _STM32)}"
        )
    base = {"kind": "c", "device": "arm_cpu", "keys": ["arm_cpu", "cpu"], "model": series}
    return _made({**base, "mcpu": _STM32[series]}, options)


__all__ = [
    "adreno", "arm_cpu", "bifrost", "cuda", "hexagon", "intel_graphics", "mali", "rasp", "riscv_cpu", "rocm", "stm32",
]  # fmt: skip
