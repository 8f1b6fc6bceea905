"""What holds for every program, tried on random ones: they verify, and copies of them are equal."""

from __future__ import annotations

import itertools
import pickle

import pytest

from tscript.ir import (
    IRModule,
    load_json,
    save_json,
    structural_equal,
    structural_hash,
    verify_well_formed,
)  # fmt: skip
from tscript.ir.functor import Rewriter, substitute
from tscript.testing import random_program


@pytest.mark.parametrize("seed", range(40))
def test_a_random_program_survives_every_kind_of_copy(seed: int) -> None:
    f = random_program(seed)
    assert verify_well_formed(f)
    for copy in (load_json(save_json(f)), pickle.loads(pickle.dumps(f))):
        assert verify_well_formed(copy)
        assert structural_equal(f, copy) and structural_hash(f) == structural_hash(copy)
    assert not verify_well_formed(IRModule({"f": f.without_attr("global_symbol"), "g": f}), assert_mode=False)


@pytest.mark.parametrize("seed", range(40))
def test_renaming_every_parameter_gives_an_equal_program(seed: int) -> None:
    f = random_program(seed)
    assert Rewriter().rewrite(f) is f
    renamed = substitute(f, {p: p.copy_with(name="q") for p in f.params})
    assert renamed is not f and structural_equal(f, renamed) and verify_well_formed(renamed)


def test_random_programs_differ_from_one_another() -> None:
    programs = [random_program(seed).without_attr("global_symbol") for seed in range(40)]
    assert len({structural_hash(f) for f in programs}) == len(programs)
    assert not any(structural_equal(f, g) for f, g in itertools.pairwise(programs))
