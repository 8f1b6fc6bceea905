"""Settings: the environment, and changes for a while."""

from __future__ import annotations

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
            "TSCRIPT_DUMP": "out:lower*",
        }
    )
    assert config == Config("dark", True, True, "out:lower*")


def test_variables_of_tvm_are_read_and_yield_to_our_own() -> None:
    assert from_environment({"TVM_PYGMENTIZE_STYLE": "light"}).pygmentize_style == "light"
    assert from_environment({"TVM_BLACK_FORMAT": "1"}).black_format
    both = {"TVM_BLACK_FORMAT": "1", "TSCRIPT_BLACK_FORMAT": "0"}
    assert not from_environment(both).black_format


@pytest.mark.parametrize("text", ["maybe", "-1"])
def test_a_bad_value_names_its_variable(text: str) -> None:
    with pytest.raises(ValueError, match="TSCRIPT_BLACK_FORMAT"):
        from_environment({"TSCRIPT_BLACK_FORMAT": text})


@pytest.mark.parametrize(
    ("text", "on"), [("1", True), ("on", True), ("2", True), ("0", False), ("", False), ("No", False)]
)
def test_a_switch_is_read_as_people_write_it(text: str, on: bool) -> None:
    assert from_environment({"TSCRIPT_FULL_TRACEBACK": text}).full_traceback is on


def test_the_environment_is_read_when_it_is_asked_for(monkeypatch) -> None:
    monkeypatch.setenv("TSCRIPT_DUMP", "there")
    assert current().dump == "there"


def test_configure_holds_inside_its_block_and_nests() -> None:
    before = current()
    with configure(dump="out"):
        with configure(black_format=True) as inner:
            assert current() == inner and inner.dump == "out" and inner.black_format
        assert not current().black_format or before.black_format
    assert current() == before


def test_an_unknown_setting_is_refused() -> None:
    with (
        pytest.raises(TypeError, match="no setting 'full_trace'; did you mean full_traceback"),
        configure(full_trace=True),
    ):
        pass


def test_the_table_lists_every_setting() -> None:
    table = knob_table()
    for knob in KNOBS:
        assert f"`{knob.field}`" in table and knob.variables[0] in table
    assert {k.field for k in KNOBS} == set(Config.__dataclass_fields__)
