"""Target tags as data: names of hardware that stand for a kind with its attributes filled in."""

from __future__ import annotations

from typing import Any, Final

TAGS: Final[dict[str, dict[str, Any]]] = {}
"""The configuration that each tag stands for."""


def _add(names: str, config: dict[str, Any]) -> None:
    for name in names.split():
        TAGS[name] = config


def _nvidia(arch: str, names: str, registers: int = 65536, **more: Any) -> None:
    config = {
        "kind": "cuda",
        "keys": ["cuda", "gpu"],
        "arch": arch,
        "max_shared_memory_per_block": 49152,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
        "registers_per_block": registers,
        **more,
    }
    for name in names.split():
        TAGS[f"nvidia/{name}"] = config


def _jetson_host(mcpu: str, cores: int) -> dict[str, Any]:
    return {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": mcpu, "num-cores": cores}


_nvidia("sm_89", "geforce-rtx-4090", l2_cache_size_bytes=75497472)
_nvidia("sm_90a", "nvidia-h100", l2_cache_size_bytes=52428800)
_nvidia("sm_80", "nvidia-a100", l2_cache_size_bytes=41943040)
_nvidia("sm_80", "nvidia-a30")
_nvidia(
    "sm_86",
    "geforce-rtx-3090-ti geforce-rtx-3090 geforce-rtx-3080-ti geforce-rtx-3080 geforce-rtx-3070-ti geforce-rtx-3070 "
    "geforce-rtx-3060 nvidia-a40 nvidia-a10 nvidia-a10g nvidia-a16 nvidia-a2 rtx-a6000",
)
_nvidia(
    "sm_75",
    "geforce-rtx-2080-ti geforce-rtx-2080 geforce-rtx-2070 geforce-rtx-2060 nvidia-t4 nvidia-titan-rtx "
    "quadro-rtx-8000 quadro-rtx-6000 quadro-rtx-5000 quadro-rtx-4000",
)
_nvidia("sm_70", "nvidia-v100 nvidia-titan-v quadro-gv100")
_nvidia(
    "sm_61",
    "geforce-gtx-1080-ti geforce-gtx-1080 geforce-gtx-1070-ti geforce-gtx-1070 geforce-gtx-1060 geforce-gtx-1050-ti "
    "geforce-gtx-1050 tesla-p40 tesla-p4 nvidia-titan-x nvidia-titan-xp",
)
_nvidia("sm_60", "tesla-p100")
_nvidia("sm_52", "geforce-gtx-980-ti geforce-gtx-980 geforce-gtx-970 geforce-gtx-960 tesla-m60 tesla-m40")
_nvidia("sm_62", "jetson-tx2", registers=32768)
_nvidia("sm_53", "jetson-nano jetson-tx1 tegra-x1", registers=32768)
_nvidia("sm_72", "jetson-agx-xavier", host=_jetson_host("carmel", 8))
_nvidia("sm_87", "jetson-orin-nano", host=_jetson_host("cortex-a78", 6))
_nvidia("sm_87", "jetson-agx-orin-32gb", host=_jetson_host("cortex-a78", 8))
_nvidia("sm_87", "jetson-agx-orin-64gb", host=_jetson_host("cortex-a78", 12))

_add(
    "raspberry-pi/4b-aarch64",
    {
        "kind": "llvm",
        "mtriple": "aarch64-linux-gnu",
        "mcpu": "cortex-a72",
        "mattr": ["+neon"],
        "num-cores": 4,
    },
)

for _size, _cores, _cpu in (
    ("large", 1, "skylake-avx512"), ("xlarge", 2, "skylake-avx512"), ("2xlarge", 4, "skylake-avx512"),
    ("4xlarge", 8, "skylake-avx512"), ("9xlarge", 18, "skylake-avx512"), ("12xlarge", 24, "cascadelake"),
    ("18xlarge", 36, "skylake-avx512"), ("24xlarge", 48, "cascadelake"),
):  # fmt: skip
    _add(f"aws/cpu/c5.{_size}", {"kind": "llvm", "keys": ["x86", "cpu"], "mcpu": _cpu, "num-cores": _cores})

for _names, _threads in (("apple/m1-gpu apple/m2-gpu", 1024), ("apple/m1-gpu-restricted", 256)):
    _add(
        _names,
        {
            "kind": "metal",
            "max_threads_per_block": _threads,
            "max_num_threads": _threads,
            "max_shared_memory_per_block": 32768,
            "thread_warp_size": 32,
        },
    )
