"""Random programs: printed, read back, interpreted and built, they stay the same program.

`TSCRIPT_FUZZ_SEEDS=first:last` runs other seeds than the ones of every test run,
`TSCRIPT_FUZZ_TARGET="llvm -mcpu=haswell"` builds for another CPU than this one.
"""

from __future__ import annotations

import os
import pickle
from platform import machine

import pytest

from tscript.ir.json_io import load_json, save_json
from tscript.ir.structural import assert_structural_equal, structural_hash
from tscript.ir.well_formed import verify_well_formed
from tscript.testing.differential import check_round_trip, run_both
from tscript.testing.random_program import random_program

_FIRST, _LAST = (int(s) for s in os.environ.get("TSCRIPT_FUZZ_SEEDS", "0:240").split(":"))
_TARGET = os.environ.get("TSCRIPT_FUZZ_TARGET", "llvm")
BATCH = 20
BATCHES = [range(s, min(s + BATCH, _LAST)) for s in range(_FIRST, _LAST, BATCH)]
batches = pytest.mark.parametrize("seeds", BATCHES, ids=[f"{b.start}-{b.stop - 1}" for b in BATCHES])


@batches
def test_a_program_that_the_verifier_accepts_is_printed_and_read_back(seeds: range) -> None:
    for seed in seeds:
        func = random_program(seed)
        verify_well_formed(func)
        try:
            check_round_trip(func)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{func.script()}") from error


@batches
def test_a_program_that_the_verifier_accepts_builds_and_computes_what_the_interpreter_computes(seeds: range) -> None:
    for seed in seeds:
        func = random_program(seed)
        try:
            run_both(func, seed, target=_TARGET)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{func.script()}") from error


def test_a_saved_program_is_the_same_program() -> None:
    for seed in range(60):
        func = random_program(seed)
        for again in (load_json(save_json(func)), pickle.loads(pickle.dumps(func))):
            assert_structural_equal(func, again)
            assert structural_hash(func) == structural_hash(again)
            assert again.script() == func.script()


def test_the_same_seed_gives_the_same_program() -> None:
    assert random_program(11).script() == random_program(11).script()


@pytest.mark.parametrize("cpu", ["x86-64", "haswell"])
def test_code_for_cpus_with_narrower_vectors_computes_what_the_interpreter_computes(cpu: str) -> None:
    if machine() not in ("x86_64", "AMD64"):
        pytest.skip("code for x86 does not run here")
    for seed in range(4_000, 4_020):
        func = random_program(seed)
        try:
            run_both(func, seed, target=f"llvm -mcpu={cpu}")
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{func.script()}") from error
