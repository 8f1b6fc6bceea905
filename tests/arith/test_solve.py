"""Systems of equations and inequalities have exactly the solutions that enumeration finds."""

from __future__ import annotations

import itertools
import random

import pytest

from tscript.arith import Analyzer
from tscript.arith.constraints import IntGroupBounds
from tscript.arith.linear_equation import detect_clip_bound, detect_linear_equation
from tscript.arith.smith import smith_normal_form
from tscript.arith.solve_equations import solve_linear_equations
from tscript.arith.solve_inequalities import solve_linear_inequalities
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, Range, Var
from tscript.testing.random_index import index_value

X, Y, Z, N = Var("x"), Var("y"), Var("z"), Var("n")
VARS = (X, Y, Z)


def times(a, b):
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


@pytest.mark.parametrize("seed", range(60))
def test_smith_form_is_diagonal_and_invertible(seed):
    rng = random.Random(seed)
    rows, columns = rng.randint(1, 4), rng.randint(1, 4)
    a = [[rng.randint(-6, 6) for _ in range(columns)] for _ in range(rows)]
    form = smith_normal_form(a, columns)
    product = times(times(form.left, a), form.right)
    for i in range(rows):
        for j in range(columns):
            expected = form.diagonal[i] if i == j and i < len(form.diagonal) else 0
            assert product[i][j] == expected
    assert times(form.right, form.right_inverse) == [[int(i == j) for j in range(columns)] for i in range(columns)]
    assert all(b % a == 0 for a, b in zip(form.diagonal, form.diagonal[1:], strict=False))


def combination(rng):
    e = IntImm("int32", rng.randint(-6, 6))
    for v in VARS:
        e = make.add(e, make.mul(v, rng.randint(-3, 3)))
    return e


def box(ranges):
    for values in itertools.product(*[range(r.min.value, r.min.value + r.extent.value) for r in ranges.values()]):
        yield dict(zip(ranges, values, strict=True))


@pytest.mark.parametrize("seed", range(80))
def test_equations_have_the_solutions_of_the_transformed_system(seed):
    rng = random.Random(seed)
    ranges = {v: Range.from_min_extent(rng.randint(-3, 2), rng.randint(1, 7)) for v in VARS}
    equations = [make.compare(ex.EQ, combination(rng), 0) for _ in range(rng.randint(1, 3))]
    expected = {tuple(env.values()) for env in box(ranges) if all(index_value(e, env) for e in equations)}
    solved = solve_linear_equations(equations, VARS, ranges)
    found = set()
    if not any(isinstance(r, IntImm) for r in solved.dst.relations):
        assert set(solved.dst.ranges) == set(solved.dst.variables)
        for env in box(solved.dst.ranges):
            if all(index_value(r, env) for r in solved.dst.relations):
                found.add(tuple(index_value(solved.src_to_dst[v], env) for v in VARS))
    assert found == expected
    for point in expected:
        env = dict(zip(VARS, point, strict=True))
        new = {n: index_value(e, env) for n, e in solved.dst_to_src.items()}
        assert tuple(index_value(solved.src_to_dst[v], new) for v in VARS) == point


@pytest.mark.parametrize("deskew", [False, True])
@pytest.mark.parametrize("seed", range(80))
def test_inequalities_have_the_solutions_of_the_ranges(seed, deskew):
    rng = random.Random(seed)
    ranges = {v: Range.from_min_extent(rng.randint(-3, 2), rng.randint(1, 7)) for v in VARS}
    conditions = [
        rng.choice([ex.LE, ex.LT, ex.GE, ex.GT, ex.EQ])(combination(rng), IntImm("int32", rng.randint(-5, 5)))
        for _ in range(rng.randint(1, 4))
    ]
    expected = {tuple(env.values()) for env in box(ranges) if all(index_value(c, env) for c in conditions)}
    solved = solve_linear_inequalities(conditions, VARS, ranges, deskew)
    system = solved.dst if deskew else solved
    found = set()

    def go(env, left):
        if not left:
            if all(index_value(r, env) for r in system.relations):
                found.add(tuple(index_value(solved.src_to_dst[v], env) if deskew else env[v] for v in VARS))
            return
        *rest, v = left
        dom = system.ranges[v]
        low = index_value(dom.min, env)
        for x in range(low, low + index_value(dom.extent, env)):
            go({**env, v: x}, rest)

    if not any(isinstance(r, IntImm) and not r.value for r in system.relations):
        go({}, list(system.variables))
    assert found == expected


def test_symbols_stay_in_ranges():
    solved = solve_linear_inequalities([X >= 0, X < N, Y >= X, Y < N], [Y, X])
    assert solved.ranges[Y].min is X and solved.ranges[X].min.value == 0
    solved = solve_linear_equations([make.compare(ex.EQ, X * 4 + Y, N)], [X, Y])
    assert len(solved.dst.variables) == 1
    for n, free in itertools.product(range(-9, 9), range(-3, 3)):
        env = {N: n, solved.dst.variables[0]: free}
        assert index_value(solved.src_to_dst[X], env) * 4 + index_value(solved.src_to_dst[Y], env) == n


def test_elimination_stops_at_its_budget():
    rng = random.Random(1)
    many = [Var(f"v{i}") for i in range(12)]
    conditions = []
    for _ in range(90):
        total = IntImm("int32", rng.randint(-9, 9))
        for v in many:
            total = make.add(total, make.mul(v, rng.randint(-5, 5)))
        conditions.append(total <= rng.randint(0, 50))
    solved = solve_linear_inequalities(conditions, many)
    assert solved.relations


def test_linear_equations_are_detected_with_symbolic_factors():
    assert [str(e) for e in detect_linear_equation(X * 4 + Y * N + 3 - X, [X, Y])] == ["3", "n", "3"]
    assert detect_linear_equation(X * Y, [X, Y]) == []
    assert detect_linear_equation(X // 2, [X]) == []
    assert [str(e) for e in detect_linear_equation(N // 2 * X + N, [X])] == ["n // 2", "n"]


def test_clip_bounds_are_detected():
    low, high, low_y, high_y = detect_clip_bound(make.and_(make.and_(X < N, X >= 2), Y + 1 <= 7), [X, Y])
    assert low.value == 2 and str(high) == "n - 1" and low_y is None and high_y.value == 6
    assert detect_clip_bound(X * 2 < N, [X]) == []
    assert detect_clip_bound(make.or_(X < N, X >= 2), [X]) == []


def test_group_bounds_give_a_range():
    dom = IntGroupBounds(3, (IntImm("int32", 4),), (), (IntImm("int32", 20),)).find_best_range()
    assert (dom.min.value, dom.extent.value) == (2, 5)
    a = Analyzer()
    group = IntGroupBounds.from_range(Range.from_min_extent(N, 4))
    assert a.can_prove_equal(group.find_best_range().extent, 4)
