"""Index maps: mapping, shapes, inverses (checked by enumeration), equivalence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tscript.ir.construct import const
from tscript.ir.expr import IntImm, IterVar, Range, SizeVar, Var
from tscript.ir.functor import substitute
from tscript.ir.index_map import IndexMap
from tscript.ir.structural import structural_equal


def values(exprs: Sequence[Any]) -> tuple[int, ...]:
    assert all(isinstance(e, IntImm) for e in exprs)
    return tuple(e.value for e in exprs)


def check_inverse(m: IndexMap, shape: Sequence[int]) -> tuple[tuple[int, ...], bool]:
    """Enumerate both spaces; the shape of the results, and whether every point of it is reached."""
    space = values(m.map_shape(shape))
    back, padding = m.non_surjective_inverse(shape)
    condition = IndexMap(back.initial_indices, (padding.astype("int64"),))
    reached: set[tuple[int, ...]] = set()
    for point in itertools.product(*map(range, shape)):
        image = values(m.map_indices(point))
        assert all(0 <= k < n for k, n in zip(image, space, strict=True))
        assert values(back.map_indices(image)) == point
        reached.add(image)
    for image in itertools.product(*map(range, space)):
        assert values(condition.map_indices([const(k, "int64") for k in image])) == (int(image not in reached),)
    full = len(reached) == len(list(itertools.product(*map(range, space))))
    if full:
        assert values(m.inverse(shape).map_indices(space)) is not None
    else:
        with pytest.raises(ValueError, match="does not reach every point"):
            m.inverse(shape)
    return space, full


@pytest.mark.parametrize(
    ("function", "shape", "space", "full"),
    [
        (lambda i, j: [j, i], (4, 6), (6, 4), True),
        (lambda i, j: [i // 4, j, i % 4], (16, 6), (4, 6, 4), True),
        (lambda i, j: [i // 4, j, i % 4], (14, 6), (4, 6, 4), False),
        (lambda i, j: [i * 6 + j], (4, 6), (24,), True),
        (lambda i, j: [(i * 6 + j) // 8, (i * 6 + j) % 8], (4, 6), (3, 8), True),
        (lambda i, j: [(i * 6 + j) // 7, (i * 6 + j) % 7], (4, 6), (4, 7), False),
        (lambda i, j: [(i * 6 + j) // 8 // 2, (i * 6 + j) // 8 % 2, (i * 6 + j) % 8], (4, 6), (2, 2, 8), False),
        (lambda i, j: [15 - i, j], (16, 2), (16, 2), True),
        (lambda i: [i * 2], (16,), (31,), False),
        (lambda i: [i + 3], (16,), (19,), False),
        (lambda i, j: [i * 8 + j], (3, 6), (22,), False),
        (lambda i, j, k: [i * 20 + j * 8 + k], (3, 2, 6), (54,), False),
        (lambda n, h, w, c: [n, c // 4, h, w, c % 4], (1, 2, 3, 8), (1, 2, 2, 3, 4), True),
        (lambda i, j: [i // 4 * 4 + i % 4, j], (16, 2), (16, 2), True),
        (lambda i: [i // 8, i // 2 % 4, i % 2], (32,), (4, 4, 2), True),
        (lambda i: [i, 0], (5,), (5, 1), True),
    ],
)
def test_layouts_map_and_invert(function: Callable[..., Any], shape: Any, space: Any, full: bool) -> None:
    assert check_inverse(IndexMap.from_func(function), shape) == (space, full)


@given(some.data())
def test_random_splits_fusions_and_permutations_invert(data: some.DataObject) -> None:
    shape = data.draw(some.lists(some.integers(1, 6), min_size=1, max_size=3))
    axes: list[Any] = [Var(f"i{k}", "int64") for k in range(len(shape))]
    sources, extents = list(axes), list(shape)
    for _ in range(data.draw(some.integers(0, 3))):
        step = data.draw(some.sampled_from(["split", "fuse", "swap"]))
        at = data.draw(some.integers(0, len(axes) - 1))
        if step == "split" and len(axes) < 4:
            by = data.draw(some.integers(1, 4))
            axes[at : at + 1] = [axes[at] // by, axes[at] % by]
            extents[at : at + 1] = [-(-extents[at] // by), by]
        elif step == "fuse" and at + 1 < len(axes):
            axes[at : at + 2] = [axes[at] * extents[at + 1] + axes[at + 1]]
            extents[at : at + 2] = [extents[at] * extents[at + 1]]
        elif step == "swap":
            axes.append(axes.pop(at))
            extents.append(extents.pop(at))
    m = IndexMap(tuple(sources), tuple(axes))
    try:
        m.non_surjective_inverse(shape)
    except ValueError:
        # A split that leaves a rest, fused and cut again, has no form of digits.
        return
    check_inverse(m, shape)


def test_symbolic_extents_map_to_symbolic_shapes() -> None:
    n = SizeVar("n", "int64")
    tile = IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    shape = tile.map_shape([n, 16])
    assert structural_equal(shape[0], (n + 3) // 4) and values(shape[1:]) == (16, 4)
    assert IndexMap.from_func(lambda i, j: [j, i]).map_shape([n, 16])[1] is n
    with pytest.raises(ValueError, match="does not reach every point"):
        tile.inverse([n, 16])
    assert len(tile.inverse([n * 4, 16]).final_indices) == 2


def test_results_take_the_type_of_the_indices() -> None:
    m = IndexMap.from_func(lambda i, j: [i * 4 + j, 7])
    a, b = Var("a"), Var("b")
    assert m.map_indices([a, b])[0] is a * 4 + b
    assert [e.dtype for e in m.map_indices([a, b])] == ["int32", "int32"]
    assert [e.dtype for e in m.map_shape([4, 4])] == ["int32", "int32"]
    assert m.map_indices([IterVar(Range(0, 4), a, 0), b])[0] is a * 4 + b


def test_functions_of_any_number_of_indices_need_ndim() -> None:
    assert len(IndexMap.from_func(lambda *i: i[::-1], ndim=3).initial_indices) == 3
    assert len(IndexMap.from_func(lambda n, *rest: [*rest, n], ndim=3).final_indices) == 3
    with pytest.raises(ValueError, match="tell how many indices with ndim="):
        IndexMap.from_func(lambda *i: i)
    with pytest.raises(ValueError, match="takes 1 indices, not 2"):
        IndexMap.from_func(lambda i: [i], ndim=2)
    with pytest.raises(ValueError, match="no keyword argument"):
        IndexMap.from_func(lambda *, i: [i])


def test_axis_separators_are_reported_apart() -> None:
    def layout(i: Any, j: Any) -> list[Any]:
        return [i, IndexMap.AXIS_SEPARATOR, j]

    m, separators = IndexMap.from_func_with_separators(layout)
    assert separators == [1] and len(m.final_indices) == 2
    with pytest.raises(ValueError, match="use IndexMap.from_func_with_separators"):
        IndexMap.from_func(layout)


def test_a_given_inverse_is_used() -> None:
    m = IndexMap.from_func(lambda i: [i ^ 1], inverse_index_map=lambda i: [i ^ 1])
    assert m.inverse([8]) is m.inverse_index_map
    with pytest.raises(ValueError, match="not made of splits, fusions"):
        IndexMap.from_func(lambda i: [i ^ 1]).inverse([8])


@pytest.mark.parametrize(
    ("function", "shape", "message"),
    [
        (lambda i: [i, i], (4,), "more than once"),
        (lambda i: [i // 2], (4,), "drops a part of i"),
        (lambda i: [i % 2], (4,), "drops a part of i"),
        (lambda i, j: [i], (4, 4), "drops a part of j"),
        (lambda i, j: [i * 3 + j], (4, 4), "cannot be taken out again"),
        (lambda i: [i - 1], (4,), "can be negative"),
    ],
)
def test_maps_without_inverse_say_why(function: Callable[..., Any], shape: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IndexMap.from_func(function).inverse(shape)


def test_a_negative_result_has_no_shape() -> None:
    with pytest.raises(ValueError, match="can be negative"):
        IndexMap.from_func(lambda i: [i - 1]).map_shape([4])


def test_the_number_of_indices_must_agree() -> None:
    m = IndexMap.from_func(lambda i, j: [j, i])
    for use in (m.map_indices, m.map_shape, m.inverse):
        with pytest.raises(ValueError, match="takes 2"):
            use([1])


def test_equivalence_sees_through_names_order_and_grouping() -> None:
    a = IndexMap.from_func(lambda i, j: [i * 4 + j, (i * 8 + j * 2) // 3])
    assert a.is_equivalent_to(IndexMap.from_func(lambda x, y: [y + x * 4, (y * 2 + x * 8) // 3]))
    assert not a.is_equivalent_to(IndexMap.from_func(lambda x, y: [y + x * 4, (y * 2 + x * 8) // 5]))
    assert not a.is_equivalent_to(IndexMap.from_func(lambda x, y: [y + x * 4]))
    assert not a.is_equivalent_to(IndexMap.from_func(lambda x: [x, x]))


def test_wrong_indices_and_results_are_refused() -> None:
    with pytest.raises(TypeError, match="integer variables"):
        IndexMap((Var("f", "float32"),), ())
    with pytest.raises(TypeError, match="'final_indices' of IndexMap is an expression"):
        IndexMap((Var("i"),), ("i",))  # pyright: ignore[reportArgumentType]


def test_a_map_of_no_indices_gives_results_of_its_own_type() -> None:
    m = IndexMap((), (const(0, "int32"),))
    assert m.map_indices([])[0].dtype == "int32" and m.map_shape([])[0].dtype == "int32"


def test_a_result_that_is_no_integer_has_no_bound() -> None:
    made = IndexMap.from_func(lambda i: [i.astype("float32")])
    with pytest.raises(ValueError, match="no bound can be found"):
        made.map_shape([4])


def test_substitution_works_inside_a_map() -> None:
    n, m = Var("n", "int64"), Var("m", "int64")
    made = IndexMap.from_func(lambda i: [i + n])
    assert substitute(made, {n: m}).final_indices[0] is made.initial_indices[0] + m
