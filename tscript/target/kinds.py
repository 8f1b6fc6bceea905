"""Target kinds as data: the device they run on, their keys, and the options they take with types and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

OptionType = Literal["int", "str", "bool", "list", "targets"]
"""What an option holds: a number, a text, a flag, a list of texts, or a list of targets."""

DEVICE_CODES: Final[dict[str, int]] = {
    "cpu": 1, "cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "rocm": 10, "ext_dev": 12, "webgpu": 15, "hexagon": 16,
}  # fmt: skip
"""DLPack's numbers of the devices that targets run on."""


def _options(ints: str = "", texts: str = "", flags: str = "", lists: str = "") -> dict[str, OptionType]:
    found: dict[str, OptionType] = dict.fromkeys(ints.split(), "int")
    found |= dict.fromkeys(texts.split(), "str")
    found |= dict.fromkeys(flags.split(), "bool")
    found |= dict.fromkeys(lists.split(), "list")
    return found


COMMON_OPTIONS: Final = _options("from_device target_device_type", "tag device model", lists="keys libs")
"""Options that every kind takes. `device` goes to the front of the keys; `from_device` asks a device at hand."""


@dataclass(frozen=True, slots=True)
class TargetKind:
    """A family of targets: `name`, the `device` it runs on, `keys`, the types of its `options`, `defaults`.

    >>> KINDS["cuda"].options["max_threads_per_block"], KINDS["cuda"].defaults["thread_warp_size"]
    ('int', 32)
    """

    name: str
    device: str
    keys: tuple[str, ...]
    options: dict[str, OptionType]
    defaults: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def device_type(self) -> int:
        """DLPack's number of the device."""
        return DEVICE_CODES[self.device]

    def __str__(self) -> str:
        return self.name


def _kind(
    name: str, device: str, keys: str, options: dict[str, OptionType] | None = None, **defaults: int
) -> TargetKind:
    own: dict[str, OptionType] = dict.fromkeys(defaults, "int")
    return TargetKind(name, device, tuple(keys.split()), {**COMMON_OPTIONS, **own, **(options or {})}, defaults)


_FAST_MATH: Final = "fast-math fast-math-nnan fast-math-ninf fast-math-nsz fast-math-arcp fast-math-contract " \
    "fast-math-reassoc"  # fmt: skip

_VULKAN: Final = _options(
    ints="supported_subgroup_operations max_threads_per_block max_block_size_x max_block_size_y max_block_size_z "
    "max_push_constants_size max_uniform_buffer_range max_storage_buffer_range "
    "max_per_stage_descriptor_storage_buffer max_shared_memory_per_block driver_version vulkan_api_version "
    "max_spirv_version",
    texts="device_type device_name driver_name",
    flags="supports_float16 supports_float32 supports_float64 supports_int8 supports_int16 supports_int32 "
    "supports_int64 supports_8bit_buffer supports_16bit_buffer supports_storage_buffer_storage_class "
    "supports_push_descriptor supports_dedicated_allocation supports_integer_dot_product supports_cooperative_matrix",
    lists="mattr",
)

KINDS: Final[dict[str, TargetKind]] = {
    k.name: k
    for k in (
        _kind(
            "llvm", "cpu", "cpu",
            _options("num-cores opt-level vector-width", "mcpu mtriple mfloat-abi mabi jit", _FAST_MATH,
                     "mattr cl-opt"),
        ),
        _kind(
            "c", "cpu", "cpu",
            _options("num-cores workspace-byte-alignment constants-byte-alignment", "mcpu march"),
        ),
        _kind(
            "cuda", "cuda", "cuda gpu",
            _options("max_shared_memory_per_block max_threads_per_block registers_per_block l2_cache_size_bytes",
                     "mcpu arch"),
            thread_warp_size=32, max_num_threads=1024,
        ),
        _kind(
            "nvptx", "cuda", "cuda gpu", _options(texts="mcpu mtriple"), max_num_threads=1024, thread_warp_size=32
        ),
        _kind(
            "rocm", "rocm", "rocm gpu", _options(texts="mcpu mtriple", lists="mattr"), max_num_threads=256,
            max_threads_per_block=256, max_shared_memory_per_block=65536, thread_warp_size=64,
        ),
        _kind(
            "opencl", "opencl", "opencl gpu", max_threads_per_block=256, max_num_threads=256,
            max_shared_memory_per_block=16384, thread_warp_size=1, texture_spatial_limit=16384, max_function_args=128,
            image_base_address_alignment=64,
        ),
        _kind(
            "metal", "metal", "metal gpu", max_num_threads=256, max_threads_per_block=256,
            max_shared_memory_per_block=32768, thread_warp_size=16, max_function_args=31,
        ),
        _kind("vulkan", "vulkan", "vulkan gpu", _VULKAN, max_num_threads=256, thread_warp_size=1),
        _kind("webgpu", "webgpu", "webgpu gpu", max_num_threads=256),
        _kind(
            "hexagon", "hexagon", "hexagon cpu",
            _options("num-cores vtcm-capacity", "mcpu mtriple", lists="mattr llvm-options"),
        ),
        _kind("ext_dev", "ext_dev", ""),
        _kind("hybrid", "cpu", ""),
        _kind("composite", "cpu", "", {"devices": "targets"}),
        _kind("test", "cpu", ""),
    )
}  # fmt: skip
