"""Printed programs read back to the same programs."""

import pytest

from tscript.ir.structural import assert_structural_equal
from tscript.script import from_source
from tscript.testing.random_program import random_program


@pytest.mark.parametrize("seed", range(40))
def test_a_random_program_survives_both_ways_of_printing(seed: int) -> None:
    func = random_program(seed)
    assert_structural_equal(func, from_source(func.script()))
    assert_structural_equal(func, from_source(func.script(syntax_sugar=False)))
