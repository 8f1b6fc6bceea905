"""Verdicts on iterator maps, and what is made of them, agree with enumeration."""

from __future__ import annotations

import itertools
import random

import pytest

from tscript.arith.iter_map.detect import detect_iter_map, iter_map_simplify, normalize_to_iter_sum
from tscript.arith.iter_map.divide import subspace_divide
from tscript.arith.iter_map.inverse import inverse_affine_iter_map
from tscript.arith.iter_map.normalize import normalize_iter_map_to_expr
from tscript.ir import construct as make
from tscript.ir.expr import IntImm, Range, Var
from tscript.ir.functor import substitute
from tscript.testing.random_index import index_value


class Nest:
    """Loops over axes, split and fused at random; `bindings` are the axes in terms of the loops."""

    def __init__(self, rng, extents, dtype="int32"):
        self.rng = rng
        self.axes = [Var(f"a{i}", dtype) for i in range(len(extents))]
        self.dtype = dtype
        self.loops = dict(zip(self.axes, extents, strict=True))
        self.bindings = list(self.axes)
        self.predicate = IntImm("bool", 1)
        self.counter = 0

    def fresh(self, extent):
        self.counter += 1
        return Var(f"v{self.counter}", self.dtype)

    def replace(self, mapping):
        self.bindings = [substitute(b, mapping) for b in self.bindings]
        self.predicate = substitute(self.predicate, mapping)

    def split(self, exact):
        loop = self.rng.choice(list(self.loops))
        extent = self.loops.pop(loop)
        divisors = [d for d in range(1, extent + 1) if extent % d == 0]
        factor = self.rng.choice(divisors) if exact else self.rng.randint(1, extent + 1)
        outer, inner = self.fresh(0), self.fresh(0)
        count = -(-extent // factor)
        value = outer * factor + inner
        self.replace({loop: value})
        self.loops[outer], self.loops[inner] = count, factor
        if count * factor != extent:
            self.predicate = make.and_(self.predicate, value < extent)

    def fuse(self):
        if len(self.loops) < 2:
            return
        a, b = self.rng.sample(list(self.loops), 2)
        m, n = self.loops.pop(a), self.loops.pop(b)
        fused = self.fresh(0)
        self.loops[fused] = m * n
        self.replace({a: fused // n, b: fused % n})

    @property
    def ranges(self):
        return {v: Range.from_min_extent(IntImm(self.dtype, 0), IntImm(self.dtype, e)) for v, e in self.loops.items()}


def random_nest(rng, steps, exact=False, dtype="int32"):
    nest = Nest(rng, [rng.randint(1, 9) for _ in range(rng.randint(1, 3))], dtype)
    for _ in range(rng.randint(0, steps)):
        nest.split(exact) if rng.random() < 0.55 else nest.fuse()
    return nest


def points(loops, predicate):
    for values in itertools.product(*[range(e) for e in loops.values()]):
        env = dict(zip(loops, values, strict=True))
        if index_value(predicate, env):
            yield env


def verdict(indices, loops, predicate):
    """(onto the product of what each index takes from its least to its greatest value, one to one)."""
    images = [tuple(index_value(e, env) for e in indices) for env in points(loops, predicate)]
    distinct = set(images)
    size = 1
    for column in zip(*images, strict=True):
        size *= len(set(column))
    return len(distinct) == size, len(distinct) == len(images)


def small(nest, limit=4000):
    total = 1
    for e in nest.loops.values():
        total *= e
    return total <= limit


@pytest.mark.parametrize("seed", range(100))
def test_splits_and_fusions_are_one_to_one_and_simplify_to_the_same_values(seed):
    rng = random.Random(seed)
    nest = random_nest(rng, 4, exact=rng.random() < 0.4, dtype=rng.choice(["int32", "int64"]))
    if not small(nest):
        return
    assert verdict(nest.bindings, nest.loops, nest.predicate) == (True, True)
    found = detect_iter_map(nest.bindings, nest.ranges, nest.predicate, "surjective")
    if found.indices and index_value(found.padding_predicate, dict.fromkeys(nest.loops, 0)) == 0:
        for new, old in zip([normalize_iter_map_to_expr(s) for s in found.indices], nest.bindings, strict=True):
            for env in points(nest.loops, nest.predicate):
                assert index_value(new, env) == index_value(old, env), f"{old} -> {new}"
    for trivial in (True, False):
        new = iter_map_simplify(nest.bindings, nest.ranges, nest.predicate, "surjective", trivial)
        for n, o in zip(new, nest.bindings, strict=True):
            assert n.dtype is o.dtype
            for env in points(nest.loops, nest.predicate):
                assert index_value(n, env) == index_value(o, env), f"{o} -> {n}"


@pytest.mark.parametrize("seed", range(100))
def test_exact_splits_and_fusions_of_divisible_extents_are_detected(seed):
    rng = random.Random(1000 + seed)
    nest = Nest(rng, [rng.choice([4, 8, 16]) for _ in range(rng.randint(1, 3))])
    for _ in range(rng.randint(1, 5)):
        loop = rng.random()
        nest.split(exact=True) if loop < 0.6 else nest.fuse()
    found = detect_iter_map(nest.bindings, nest.ranges, nest.predicate, "bijective", rng.random() < 0.5)
    assert found.indices, f"{nest.bindings} over {nest.loops}: {found.errors}"


@pytest.mark.parametrize("seed", range(100))
def test_one_split_that_leaves_a_rest_is_detected(seed):
    rng = random.Random(2000 + seed)
    nest = Nest(rng, [rng.randint(2, 20) for _ in range(rng.randint(1, 3))])
    for _ in range(rng.randint(1, 3)):
        nest.split(exact=False)
    found = detect_iter_map(nest.bindings, nest.ranges, nest.predicate, "bijective")
    assert found.indices, f"{nest.bindings} over {nest.loops} if {nest.predicate}: {found.errors}"


def distorted(rng, nest):
    """Bindings that may be no map worth the name."""
    loops = list(nest.loops)
    result = []
    for b in nest.bindings:
        choice = rng.random()
        v = rng.choice(loops)
        if choice < 0.15:
            b = b + v
        elif choice < 0.3:
            b = b * rng.choice([2, 3]) + v
        elif choice < 0.45:
            b = b // rng.choice([2, 3, 4])
        elif choice < 0.6:
            b = b % rng.choice([2, 3, 4])
        elif choice < 0.7:
            b = b + rng.choice([1, 2, -1])
        elif choice < 0.8:
            b = (b + 1) // rng.choice([2, 3])
        result.append(b)
    predicate = nest.predicate
    if rng.random() < 0.4:
        v = rng.choice(loops)
        bound = rng.randint(1, 6)
        more = rng.choice([v < bound, v >= 1, v * 2 + rng.choice(loops) < bound * 2, rng.choice(result) < bound])
        predicate = make.and_(predicate, more)
    return result, predicate


@pytest.mark.parametrize("part", range(12))
def test_verdicts_on_distorted_maps_are_never_wrong(part):
    accepted = 0
    for seed in range(part * 80, part * 80 + 80):
        rng = random.Random(seed)
        nest = random_nest(rng, 3, exact=rng.random() < 0.5)
        if not small(nest, 600):
            continue
        indices, predicate = distorted(rng, nest)
        if not any(True for _ in points(nest.loops, predicate)):
            continue
        case = f"seed {seed}: {indices} over {[(v.name, e) for v, e in nest.loops.items()]} if {predicate}"
        onto, one_to_one = verdict(indices, nest.loops, predicate)
        for level in ("bijective", "surjective", "nocheck"):
            found = detect_iter_map(indices, nest.ranges, predicate, level)
            assert bool(found.indices) != bool(found.errors), case
            if not found.indices:
                continue
            unpadded = isinstance(found.padding_predicate, IntImm)
            for new, old in zip([normalize_iter_map_to_expr(s) for s in found.indices], indices, strict=True):
                for env in points(nest.loops, predicate):
                    assert index_value(new, env) == index_value(old, env), f"{case}: {old} -> {new}"
            if level == "bijective":
                assert onto and one_to_one, case
            elif level == "surjective" and unpadded:
                assert onto, case
                accepted += 1
            if level != "nocheck" and unpadded:
                for s, e in zip(found.indices, indices, strict=True):
                    values = {index_value(e, env) for env in points(nest.loops, predicate)}
                    base, args = index_value(s.base, {}), s.args
                    count = args[0].extent.value if args else 1
                    scale = args[0].scale.value if args else 1
                    assert values == {base + scale * i for i in range(count)}, f"{case}: {e}"
    assert accepted


@pytest.mark.parametrize("seed", range(120))
def test_division_by_a_subspace_puts_outer_and_inner_together_again(seed):
    rng = random.Random(3000 + seed)
    nest = random_nest(rng, 3, exact=rng.random() < 0.7)
    if not small(nest, 1500):
        return
    loops = list(nest.loops)
    inner = loops[rng.randint(0, len(loops)) :]
    divided = subspace_divide(nest.bindings, nest.ranges, inner, nest.predicate)
    if not divided:
        return
    *pairs, (outer_condition, inner_condition) = divided
    everywhere = [
        dict(zip(nest.loops, v, strict=True)) for v in itertools.product(*[range(e) for e in nest.loops.values()])
    ]
    for (outer, sub), old in zip(pairs, nest.bindings, strict=True):
        a, b = normalize_iter_map_to_expr(outer.source), normalize_iter_map_to_expr(sub.source)
        for env in points(nest.loops, nest.predicate):
            x = index_value(a, {v: env[v] for v in loops if v not in inner})
            y = index_value(b, {v: env[v] for v in inner})
            assert x * sub.extent.value + y == index_value(old, env), f"{old} -> {a}, {b}"
    for env in everywhere:
        both = index_value(outer_condition.extent, env) and index_value(inner_condition.extent, env)
        assert bool(both) == bool(index_value(nest.predicate, env))


@pytest.mark.parametrize("seed", range(120))
def test_inverse_gives_the_iterators_back(seed):
    rng = random.Random(4000 + seed)
    nest = random_nest(rng, 3, exact=True)
    if not small(nest, 1500):
        return
    found = detect_iter_map(nest.bindings, nest.ranges, True, "bijective", simplify_trivial_iterators=False)
    if not found.indices:
        return
    outputs = [Var(f"o{i}") for i in range(len(nest.bindings))]
    inverse = inverse_affine_iter_map(found.indices, outputs)
    for env in points(nest.loops, IntImm("bool", 1)):
        given = {o: index_value(b, env) for o, b in zip(outputs, nest.bindings, strict=True)}
        for v, e in inverse.items():
            assert index_value(e, given) == env[v]
    assert set(inverse) == set(nest.loops)


def test_fused_loops_come_back_as_themselves():
    i, j, f, f0, f1 = (Var(n) for n in ("i", "j", "f", "f0", "f1"))
    assert iter_map_simplify([(f // 8) * 8 + f % 8], {f: Range(0, 128)})[0] is f
    (new,) = iter_map_simplify([(f0 * 32 + f1) // 8 * 8 + (f0 * 32 + f1) % 8], {f0: Range(0, 4), f1: Range(0, 32)})
    assert new is f0 * 32 + f1
    (kept,) = iter_map_simplify([(f0 * 32 + f1 * 4 + i) // 48], {f0: Range(0, 96), f1: Range(0, 8), i: Range(0, 4)})
    assert kept is (f0 * 32 + f1 * 4 + i) // 48, "a fused iterator is not taken apart"
    (kept,) = iter_map_simplify([i * 8 + j * 2], {i: Range(0, 16), j: Range(0, 3)})
    assert kept is i * 8 + j * 2


def test_symbolic_extents_split_and_fuse():
    n, m, o, i, f = Var("n"), Var("m"), Var("o"), Var("i"), Var("f")
    found = detect_iter_map([o * 4 + i], {o: Range(0, (n + 3) // 4), i: Range(0, 4)}, o * 4 + i < n, "bijective")
    assert found.indices and found.indices[0].args[0].extent is n
    assert detect_iter_map([f // n, f % n], {f: Range(0, m * n)}, True, "bijective").indices
    assert iter_map_simplify([f // n * n + f % n], {f: Range(0, m * n)})[0] is f


def test_padding_is_described_by_a_predicate():
    f = Var("f")
    found = detect_iter_map([f // 4, f % 4], {f: Range(0, 10)}, True, "surjective")
    assert (
        found.indices
        and index_value(found.padding_predicate, {f: 10})
        and not index_value(found.padding_predicate, {f: 9})
    )
    assert not detect_iter_map([f // 4, f % 4], {f: Range(0, 10)}, True, "bijective").indices


def test_errors_name_the_iterators():
    i, j = Var("i"), Var("j")
    ranges = {i: Range(0, 8), j: Range(0, 8)}
    assert "i + j" in detect_iter_map([i + j], ranges).errors[0]
    assert "i" in detect_iter_map([i, i], ranges).errors[0]
    assert "j" in detect_iter_map([i], ranges, True, "bijective").errors[0]
    assert "i * j" in detect_iter_map([i * j], ranges).errors[0]


def test_sum_of_splits_keeps_scales():
    i, j = Var("i"), Var("j")
    total = normalize_to_iter_sum(j * 2 + i * 9 + 5, {i: Range(0, 8), j: Range(0, 8)})
    assert [s.scale.value for s in total.args] == [9, 2] and total.base.value == 5
