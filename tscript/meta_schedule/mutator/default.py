"""The mutators that targets get by default, with how often each is used."""

from __future__ import annotations

from tscript.meta_schedule.mutator.mutate_compute_location import MutateComputeLocation
from tscript.meta_schedule.mutator.mutate_parallel import MutateParallel
from tscript.meta_schedule.mutator.mutate_thread_binding import MutateThreadBinding
from tscript.meta_schedule.mutator.mutate_tile_size import MutateTileSize
from tscript.meta_schedule.mutator.mutate_unroll import MutateUnroll
from tscript.meta_schedule.mutator.mutator import Mutator


def cpu() -> dict[Mutator, float]:
    """For any CPU."""
    return {
        MutateTileSize(): 0.9,
        MutateComputeLocation(): 0.05,
        MutateUnroll(): 0.03,
        MutateParallel(max_jobs_per_core=16): 0.02,
    }


def cuda() -> dict[Mutator, float]:
    """For GPUs."""
    return {MutateTileSize(): 0.9, MutateUnroll(): 0.08, MutateThreadBinding(): 0.02}


for word in ("cuda", "cuda-tensorcore"):
    Mutator.register_kind(word, cuda)
for word in ("llvm", "vnni", "avx512", "asimd", "dotprod", "hexagon"):
    Mutator.register_kind(word, cpu)
