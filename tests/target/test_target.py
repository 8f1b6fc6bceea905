"""Targets from text, dicts and JSON."""

from __future__ import annotations

import pytest

from tscript.target.target import Target


def test_text_dict_and_json_give_the_same_target() -> None:
    text = Target("llvm -mcpu=skylake-avx512 -num-cores=4 -mattr=+avx512vnni,-amx-tile")
    same = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 4, "mattr": ["+avx512vnni", "-amx-tile"]})
    assert text == same == Target(text.to_json()) == Target(text.export()) == Target(str(text)) == Target(text)
    assert hash(text) == hash(same)
    assert text.attrs["num-cores"] == 4 and text.mcpu == "skylake-avx512" and text.mattr == ["+avx512vnni", "-amx-tile"]
    assert text != Target("llvm")


def test_printing_sorts_attributes() -> None:
    assert str(Target("llvm -num-cores=4 -mcpu=znver4")) == "llvm -keys=cpu -mcpu=znver4 -num-cores=4"
    assert (
        str(Target("cuda -arch=sm_90")) == "cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32"
    )


def test_values_may_stand_apart_and_flags_alone() -> None:
    assert Target("llvm -mcpu znver4 -fast-math").attrs == {"mcpu": "znver4", "fast-math": True}
    assert Target("cuda", host="llvm").host == Target("llvm")
    assert Target("llvm -device=arm_cpu").keys == ("arm_cpu", "cpu")


def test_the_current_target_is_that_of_the_innermost_context() -> None:
    assert Target.current() is None
    with Target("llvm") as outer:
        assert Target.current() is outer
        with Target("cuda") as inner:
            assert Target.current() is inner
        assert Target.current() is outer
    with pytest.raises(ValueError, match="no current target"):
        Target.current(allow_none=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lvm", "unknown target kind 'lvm'.*did you mean 'llvm'"),
        ("llvm -num-core=4", "no attribute 'num-core' .did you mean 'num-cores'"),
        ("llvm -num-cores=four", "takes a value of type int, not 'four'"),
        ("llvm -num-cores=4 -num-cores=5", "'num-cores' is given twice"),
        ("llvm num-cores", "'num-cores' is no attribute"),
        ("", "the target is empty"),
        ("{bad", "no valid JSON"),
    ],
)
def test_mistakes_are_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Target(text)
