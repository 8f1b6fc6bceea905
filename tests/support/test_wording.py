"""How messages call things."""

import pytest

from tscript.ir.dtype import DataType
from tscript.script import tir as T
from tscript.support.wording import kind_of, with_article


@pytest.mark.parametrize(
    "text", ["an int32", "an int64x4", "a uint8", "a float32", "a bool", "a handle", "an array", "an unknown", "a user"]
)
def test_articles_go_by_the_sound(text: str) -> None:
    name = text.split(" ")[1]
    assert with_article(name) == text


def test_the_text_of_a_type_follows_its_article() -> None:
    assert with_article(DataType("int8")) == "an int8"


def test_classes_that_users_do_not_know_by_name_are_described() -> None:
    assert kind_of(T.int32) == kind_of(T.handle) == "a type"
