"""Printed programs read back to the same programs."""

import pytest

from tscript.ir.hashing import structural_hash
from tscript.ir.structural import assert_structural_equal, structural_equal
from tscript.script import from_source
from tscript.testing.random_program import random_program


@pytest.mark.parametrize("seed", range(40))
def test_a_random_program_survives_both_ways_of_printing(seed: int) -> None:
    func = random_program(seed)
    assert_structural_equal(func, from_source(func.script()))
    assert_structural_equal(func, from_source(func.script(syntax_sugar=False)))


def test_a_stride_prints_under_the_name_that_reading_gives_it() -> None:
    func = from_source("""
        @T.prim_func
        def f(a: T.handle):
            step = T.int32()
            A = T.match_buffer(a, (8, 8), "int32", strides=(step, 1))
            A[0, 0] = 1
    """)
    assert 'strides=("A_s0", 1)' in func.script()
    assert from_source(func.script()).script() == func.script()


def test_strides_and_offsets_of_another_type_than_the_shape_are_declared() -> None:
    func = from_source("""
        @T.prim_func
        def f(a: T.handle):
            step, start = T.int64(), T.int64()
            A = T.match_buffer(a, (8, 8), "int32", strides=(step, 1), elem_offset=start)
            A[0, 0] = 1
    """)
    again = from_source(func.script())
    assert_structural_equal(func, again)
    assert again.script() == func.script()


def test_a_realized_buffer_is_defined_where_its_scope_is_told() -> None:
    text = """
        @T.prim_func
        def f():
            R = T.Buffer((8,), "int32")
            with T.realize(R[0:8], "local"):
                R[0] = 1
    """
    a, b = from_source(text, check_well_formed=False), from_source(text, check_well_formed=False)
    assert_structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)
    c = from_source(text.replace('"local"', '"shared"'), check_well_formed=False)
    assert not structural_equal(a, c)
    # Any other attribute of a buffer names one that exists before.
    other = text.replace('with T.realize(R[0:8], "local"):', 'with T.attr(R, "k", 1):')
    assert not structural_equal(
        from_source(other, check_well_formed=False), from_source(other, check_well_formed=False)
    )


def test_a_sum_of_thousands_of_terms_reads_back() -> None:
    terms = " + n" * 5000
    func = from_source(f"@T.prim_func\ndef f(A: T.Buffer((8,), 'int32'), n: T.int32):\n    A[0] = n{terms}")
    assert terms in func.script()
    assert_structural_equal(func, from_source(func.script()))
