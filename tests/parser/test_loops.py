"""What a `for` runs over."""

import builtins

import pytest

from tscript.ir.structural import structural_equal
from tscript.script import from_source
from tscript.support.errors import ScriptError

HEADER = '@T.prim_func\ndef f(C: T.Buffer((64,), "int32"), n: T.int32):\n    '


@pytest.mark.parametrize(
    ("loop", "same"),
    [
        ("for i in span(4):", "for i in range(4):"),
        ("for i in span(1, 4):", "for i in range(1, 4):"),
        ("for i in ready:", "for i in range(2, 7):"),
        ("for i in [range(3)][0]:", "for i in range(3):"),
        ("for i in range(stop=4, start=1):", "for i in range(1, 4):"),
        ("for i in range(*[1, 4]):", "for i in range(1, 4):"),
    ],
)
def test_a_range_by_any_name_is_a_loop(loop: str, same: str) -> None:
    names = {"span": builtins.range, "ready": range(2, 7)}
    made, wanted = (from_source(f"{HEADER}{line}\n        C[i] = 1\n", names) for line in (loop, same))
    assert structural_equal(made, wanted)


@pytest.mark.parametrize(
    ("head", "reason", "hint"),
    [
        ("range()", "range needs `start` too", "write range(start, stop=..., annotations=...)"),
        ("range(4, by=2)", "range takes no argument called `by`", "write range(start, stop=..., annotations=...)"),
        ("range(0, 8, 2)", "a loop has no step", None),
        ("ready", "a loop has no step: the range has the step 2", None),
        ("span(n)", "Python's `range` does not work on values of a kernel", None),
        ("enumerate([1])", "a `for` runs over one of range", None),
        ("C", "a `for` runs over one of range", None),
        ("T.serial(range(3))", "a range cannot be used as a scalar value", None),
        ("range(2**70)", "1180591620717411303424 is beyond every integer type", None),
        ("range(True)", "the bounds of a loop are integers, not bool", None),
    ],
)
def test_what_is_no_loop_is_refused_at_its_place(head: str, reason: str, hint: str | None) -> None:
    names = {"span": builtins.range, "ready": range(0, 8, 2)}
    with pytest.raises(ScriptError) as caught:
        from_source(f"{HEADER}for i in {head}:\n        C[i] = 1\n", names)
    error = caught.value
    assert error.reason.startswith(reason)
    assert hint is None or error.hint == hint
    assert (error.line, error.column) == (3, 14)
    assert error.span is not None
    assert error.span.end_column == 14 + len(head)
