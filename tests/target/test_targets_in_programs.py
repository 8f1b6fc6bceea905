"""Targets as attributes of functions: printed, read back, compared, hashed, saved."""

from __future__ import annotations

import pytest

import tscript
from tscript.ir.json_io import LoadError, load_json, save_json
from tscript.ir.structural import structural_equal, structural_hash
from tscript.script import from_source
from tscript.script import tir as T
from tscript.target import Target, list_tags


def function_for(target: object):
    @T.prim_func
    def scale(A: T.Buffer((8,), "float32")):
        T.func_attr({"target": target})
        for i in range(8):
            A[i] = A[i] * T.float32(2)

    return scale


TARGETS = [
    Target("llvm"),
    Target("llvm -mcpu=znver4 -mattr=+avx512f,-fma -fast-math -num-cores=8", host="llvm"),
    Target("nvidia/geforce-rtx-4090", host="llvm -num-cores=4"),
    Target({"kind": "cuda", "model": 'the "quick" \\ one, é\x07'}),
    Target({"kind": "composite", "devices": ["cuda", "llvm"]}),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.kind.name)
def test_a_function_with_a_target_survives_print_and_save(target: Target) -> None:
    f = function_for(target)
    assert f.attrs["target"] == target
    text = f.script()
    assert "metadata" not in text and "T.target({" in text
    for other in (from_source(text), load_json(save_json(f))):
        assert other.attrs["target"] == target and other.attrs["target"].tag == target.tag
        assert structural_equal(f, other) and structural_hash(f) == structural_hash(other)


def test_a_target_prints_as_a_call_with_sorted_keys() -> None:
    assert (
        'T.func_attr({"target": T.target({"fast-math": T.bool(True), "host": {"keys": ["cpu"], "kind": "llvm", '
        '"tag": ""}, "keys": ["cpu"], "kind": "llvm", "num-cores": 4, "tag": ""})})'
    ) in function_for(Target("llvm -num-cores=4 -fast-math", host="llvm")).script()


def test_other_targets_are_other_programs() -> None:
    functions = [function_for(t) for t in (*TARGETS, *map(Target, ("nvidia/tesla-p100", "aws/cpu/c5.large")))]
    assert len({structural_hash(f) for f in functions}) == len(functions)
    assert not any(structural_equal(f, g) for i, f in enumerate(functions) for g in functions[:i])


def test_the_tag_is_only_a_name() -> None:
    tagged = Target("nvidia/tesla-p100")
    plain = Target(str(tagged))
    assert tagged == plain and tagged.tag and not plain.tag
    f, g = function_for(tagged), function_for(plain)
    assert structural_equal(f, g) and structural_hash(f) == structural_hash(g)


def test_targets_stand_in_programs_as_text_dicts_and_objects() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        T.func_attr({"target": T.target("llvm -num-cores=4", host="llvm")})
        A[0] = T.float32(0)

    assert f.attrs["target"] == Target("llvm -num-cores=4", host="llvm")
    assert f.with_attr("target", Target("c")).script().count("T.target(") == 1


def test_damaged_targets_in_files_are_reported() -> None:
    text = save_json(function_for(Target("llvm -num-cores=4")))
    for old, new, message in (
        ("num-cores", "num-coras", "no attribute 'num-coras'"),
        ('["Target",', '["Tarqet",', "objects of the class 'Tarqet' cannot be loaded"),
    ):
        assert old in text
        with pytest.raises(LoadError, match=message):
            load_json(text.replace(old, new))


def test_every_tag_prints_and_reads_back() -> None:
    for name, target in list_tags().items():
        f = function_for(target)
        assert structural_equal(from_source(f.script()), f), name
    assert tscript.target.Target is Target
