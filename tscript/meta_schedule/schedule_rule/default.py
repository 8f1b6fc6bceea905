"""The rules that targets get by default."""

from __future__ import annotations

from tscript.meta_schedule.schedule_rule.add_rfactor import AddRFactor
from tscript.meta_schedule.schedule_rule.apply_custom_rule import ApplyCustomRule
from tscript.meta_schedule.schedule_rule.auto_bind import AutoBind
from tscript.meta_schedule.schedule_rule.auto_inline import AutoInline
from tscript.meta_schedule.schedule_rule.cross_thread_reduction import CrossThreadReduction
from tscript.meta_schedule.schedule_rule.inline_constant_scalars import InlineConstantScalars
from tscript.meta_schedule.schedule_rule.library_schedule import LibrarySchedule
from tscript.meta_schedule.schedule_rule.multi_level_tiling import MultiLevelTiling
from tscript.meta_schedule.schedule_rule.multi_level_tiling_wide_vector import MultiLevelTilingWideVector
from tscript.meta_schedule.schedule_rule.multi_level_tiling_with_intrin import MultiLevelTilingWithIntrin
from tscript.meta_schedule.schedule_rule.parallel_vectorize_unroll import ParallelizeVectorizeUnroll
from tscript.meta_schedule.schedule_rule.random_compute_location import RandomComputeLocation
from tscript.meta_schedule.schedule_rule.register_tiling import RegisterTiling
from tscript.meta_schedule.schedule_rule.reuse import ReuseType
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule

_CPU_TILES = "SSRSRS"
_CPU_WRITES = ReuseType("may", (1, 2), "global")


def _cheap_first() -> list[ScheduleRule]:
    """What comes before tiling on a CPU."""
    inline = AutoInline(
        into_producer=False,
        into_consumer=True,
        inline_const_tensor=True,
        disallow_if_then_else=True,
        require_injective=True,
        require_ordered=True,
        disallow_op=["tir.exp"],
    )
    return [ApplyCustomRule(), LibrarySchedule(), InlineConstantScalars(), inline]


def llvm() -> list[ScheduleRule]:
    """For any CPU."""
    return [
        *_cheap_first(),
        AddRFactor(16, 64),
        RegisterTiling(),
        MultiLevelTiling(_CPU_TILES, max_innermost_factor=64, reuse_write=_CPU_WRITES),
        ParallelizeVectorizeUnroll(16, 64, [0, 16, 64, 512], True),
        RandomComputeLocation(),
    ]


def _with_intrin(name: str) -> list[ScheduleRule]:
    rules = llvm()
    rule = MultiLevelTilingWithIntrin(name, _CPU_TILES, max_innermost_factor=64, reuse_write=_CPU_WRITES)
    rules.insert(next(i for i, r in enumerate(rules) if isinstance(r, RegisterTiling)), rule)
    return rules


def vnni() -> list[ScheduleRule]:
    """For x86 processors that add up products of bytes in one instruction."""
    return _with_intrin("dot_16x4_vnni")


def avx512() -> list[ScheduleRule]:
    """For x86 processors with vectors of 512 bits."""
    return _with_intrin("dot_16x4_avx512")


def _gpu_rest() -> list[ScheduleRule]:
    """What comes after tiling on a GPU."""
    return [
        InlineConstantScalars(),
        AutoInline(
            into_producer=True,
            into_consumer=True,
            inline_const_tensor=True,
            disallow_if_then_else=False,
            require_injective=False,
            require_ordered=False,
            disallow_op=[],
        ),
        CrossThreadReduction([4, 8, 16, 32, 64, 128, 256, 512]),
        ParallelizeVectorizeUnroll(-1, -1, [0, 16, 64, 512, 1024], True),
        AutoBind(256, [32, 64, 128, 256, 512, 1024]),
    ]


def cuda() -> list[ScheduleRule]:
    """For GPUs."""
    tiling = MultiLevelTiling(
        "SSSRRSRS",
        tile_binds=["blockIdx.x", "vthread.x", "threadIdx.x"],
        max_innermost_factor=64,
        vector_load_lens=[1, 2, 3, 4, 8, 16],
        reuse_read=ReuseType("must", (4,), "shared"),
        reuse_write=ReuseType("must", (3,), "local"),
    )
    return [ApplyCustomRule(), tiling, *_gpu_rest()]


# Matrix units are reached by intrinsics in the program or rules of one's own; these rules use the other units.
for word in ("cuda", "cuda-tensorcore"):
    ScheduleRule.register_kind(word, cuda)


def _arm(*intrins: str) -> list[ScheduleRule]:
    with_intrins = [
        MultiLevelTilingWithIntrin(name, _CPU_TILES, max_innermost_factor=32, reuse_write=_CPU_WRITES)
        for name in intrins
    ]
    return [
        *_cheap_first(),
        AddRFactor(8, 32),
        *with_intrins,
        RegisterTiling(),
        MultiLevelTiling(_CPU_TILES, max_innermost_factor=32, reuse_write=_CPU_WRITES),
        ParallelizeVectorizeUnroll(8, 32, [0, 8, 32, 256], True),
        RandomComputeLocation(),
    ]


def asimd() -> list[ScheduleRule]:
    """For ARM processors with vectors of 128 bits."""
    return _arm("dot_4x4_i8i8s32_neon")


def dotprod() -> list[ScheduleRule]:
    """For ARM processors that add up products of bytes in one instruction."""
    return _arm("dot_4x4_i8i8s32_sdot", "dot_4x4_u8u8u32_udot", "dot_4x4_u8u8i32_hdot")


def hexagon() -> list[ScheduleRule]:
    """For Hexagon processors."""
    tiling = MultiLevelTilingWideVector("SRSRS", 1024, max_innermost_factor=128, reuse_write=_CPU_WRITES)
    return [*_cheap_first(), tiling, ParallelizeVectorizeUnroll(16, 128, [0, 16, 64, 512], True)]


_CPU_LISTS = {
    "llvm": llvm,
    "vnni": vnni,
    "avx512": avx512,
    "asimd": asimd,
    "dotprod": dotprod,
    "hexagon": hexagon,
}
for word, rules in _CPU_LISTS.items():
    ScheduleRule.register_kind(word, rules)
