"""Settings: the environment, and changes for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from tscript.support.config import KNOBS, Config, configure, current, from_environment, knob_table


def test_without_an_environment_the_defaults_hold() -> None:
    assert from_environment({}) == Config()


def test_each_variable_sets_its_field() -> None:
    config = from_environment(
        {
            "TSCRIPT_PYGMENTIZE_STYLE": "dark",
            "TSCRIPT_BLACK_FORMAT": "1",
            "TSCRIPT_FULL_TRACEBACK": "1",
            "TSCRIPT_NUM_THREADS": "3",
            "TSCRIPT_CACHE_DIR": "cache",
            "TSCRIPT_DUMP": "out:lower*",
        }
    )
    assert config == Config("dark", True, True, 3, Path("cache"), "out:lower*")


def test_variables_of_tvm_are_read_and_yield_to_our_own() -> None:
    assert from_environment({"TVM_PYGMENTIZE_STYLE": "light"}).pygmentize_style == "light"
    assert from_environment({"TVM_BLACK_FORMAT": "1"}).black_format
    both = {"TVM_BLACK_FORMAT": "1", "TSCRIPT_BLACK_FORMAT": "0"}
    assert not from_environment(both).black_format


@pytest.mark.parametrize("text", ["x", "-1"])
def test_a_bad_value_names_its_variable(text: str) -> None:
    with pytest.raises(ValueError, match="TSCRIPT_NUM_THREADS"):
        from_environment({"TSCRIPT_NUM_THREADS": text})


def test_the_environment_is_read_when_it_is_asked_for(monkeypatch) -> None:
    monkeypatch.setenv("TSCRIPT_NUM_THREADS", "5")
    assert current().num_threads == 5


def test_configure_holds_inside_its_block_and_nests() -> None:
    before = current()
    with configure(num_threads=2):
        with configure(black_format=True) as inner:
            assert current() == inner and inner.num_threads == 2 and inner.black_format
        assert not current().black_format or before.black_format
    assert current() == before


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="no setting 'num_thread'; did you mean num_threads"), configure(num_thread=1):
        pass


def test_the_table_lists_every_setting() -> None:
    table = knob_table()
    for knob in KNOBS:
        assert f"`{knob.field}`" in table and knob.variables[0] in table
    assert {k.field for k in KNOBS} == set(Config.__dataclass_fields__)
