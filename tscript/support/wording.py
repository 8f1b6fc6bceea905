"""How messages call the things they speak of."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType


def with_article(name: str) -> str:
    """`name` after "a" or "an", as it is spoken.

    >>> with_article("int32"), with_article("uint8"), with_article("float32"), with_article("ndarray")
    ('an int32', 'a uint8', 'a float32', 'an ndarray')
    """
    vowel = name[:1].lower() in tuple("aeio") or name.lower().startswith("nd")
    # The u of uint8 is spoken as in "unit", that of Undefined is not.
    vowel = vowel or (name[:1].lower() == "u" and not name.lower().startswith(("uint", "uni", "us")))
    return f"{'an' if vowel else 'a'} {name!s}"


def kind_of(value: object) -> str:
    """What `value` is, with its article. Classes whose name says nothing to users tell theirs as `kind_in_messages`.

    >>> kind_of(3), kind_of([]), kind_of(None), kind_of(len)
    ('an int', 'a list', 'None', 'a built-in function')
    """
    if value is None:
        return "None"
    if value is ...:
        return "`...`"
    if isinstance(value, ModuleType):
        return "a module"
    if isinstance(value, BuiltinFunctionType):
        return "a built-in function"
    if isinstance(value, (FunctionType, MethodType)):
        return "a function"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    told = getattr(type(value), "kind_in_messages", None)
    return told if isinstance(told, str) else with_article(type(value).__name__)


def shown_int(value: int) -> str:
    """The digits of `value`, or how many bits it has when they would fill the screen.

    >>> shown_int(-12), shown_int(1 << 1000)
    ('-12', 'an integer of 1001 bits')
    """
    return str(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"


def require_kind(value: object, kinds: type | tuple[type, ...], demand: str) -> None:
    """TypeError, with `demand` and what was given instead, unless `value` is an instance of `kinds`."""
    if not isinstance(value, kinds):
        raise TypeError(f"{demand}, not {kind_of(value)}")
