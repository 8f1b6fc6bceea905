"""Functions known by a global name."""

from __future__ import annotations

import pytest

import tscript
from tscript.runtime import list_global_func_names, remove_global_func


@pytest.fixture
def name():
    yield "test_registry.f"
    if tscript.get_global_func("test_registry.f", allow_missing=True) is not None:
        remove_global_func("test_registry.f")


def test_a_decorator_a_call_and_the_name_itself(name):
    @tscript.register_func(name)
    def double(x):
        return 2 * x

    assert tscript.get_global_func(name) is double
    assert tscript.register_func(name, abs, override=True) is abs
    assert tscript.get_global_func(name)(-3) == 3
    assert name in list_global_func_names()

    @tscript.register_func
    def test_registry_named():
        pass

    assert tscript.get_global_func("test_registry_named") is test_registry_named
    remove_global_func("test_registry_named")


def test_what_is_refused(name):
    tscript.register_func(name, abs)
    with pytest.raises(ValueError, match=r"the name 'test_registry.f' is taken .* override=True"):
        tscript.register_func(name, max)
    assert tscript.get_global_func(name) is abs
    with pytest.raises(TypeError, match="only a function can be registered as 'other', not 3"):
        tscript.register_func("other", 3)
    with pytest.raises(
        ValueError, match="no function is registered as 'test_registry.g'; did you mean 'test_registry.f'"
    ):
        tscript.get_global_func("test_registry.g")
    assert tscript.get_global_func("nothing.like.it", allow_missing=True) is None
    with pytest.raises(ValueError, match="no function is registered"):
        remove_global_func("nothing.like.it")
