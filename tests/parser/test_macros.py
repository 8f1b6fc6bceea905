"""Macros are read in place at each use."""

import textwrap

import pytest

from tscript.ir.structural import assert_structural_equal, structural_equal
from tscript.schedule import Schedule, Trace
from tscript.script import from_source
from tscript.script import tir as T
from tscript.support.errors import ScriptError

OFFSET = 2


@T.macro
def store(X, i, *rest, value=3, **more):
    X[i + OFFSET] = T.float32(value + sum(rest) + sum(more.values()))


def test_a_macro_becomes_its_body_with_python_argument_rules() -> None:
    @T.prim_func
    def f(A: T.Buffer((16,), "float32")):
        for i in range(4):
            store(A, i)
            store(A, i=i, value=5)
            store(A, i, 1, 1, more=2)

    stores = [line.strip() for line in f.script().splitlines() if "A[" in line]
    assert stores == ["A[i + 2] = T.float32(3.0)", "A[i + 2] = T.float32(5.0)", "A[i + 2] = T.float32(7.0)"]


def test_a_hygienic_macro_does_not_see_the_place_of_use() -> None:
    @T.macro
    def clean(X):
        X[0] = T.float32(OFFSET)

    @T.macro(hygienic=False)
    def open_(X):
        X[0] = T.float32(OFFSET)

    @T.prim_func
    def f(A: T.Buffer((16,), "float32")):
        OFFSET = T.meta_var(7)
        clean(A)
        open_(A)

    assert "A[0] = T.float32(2.0)\n    A[0] = T.float32(7.0)" in f.script()


def test_an_open_macro_cannot_bind_names_of_the_place_of_use() -> None:
    @T.macro(hygienic=False)
    def bump():
        x = x + 1  # pyright: ignore[reportUnboundVariable]

    with pytest.raises(ScriptError, match="would be lost after the macro") as caught:

        @T.prim_func
        def f(C: T.Buffer((16,), "int32")):
            x = C[0]
            bump()
            C[1] = x

    assert "in the macro bump, used here" in str(caught.value)


def test_closures_of_a_macro_are_looked_up_when_it_is_used() -> None:
    value = 1

    @T.macro
    def put(C):
        C[0] = value

    value = 2

    @T.prim_func
    def f(C: T.Buffer((4,), "int32")):
        put(C)

    assert "C[0] = 2" in f.script()


def test_macros_may_use_macros_and_hold_blocks() -> None:
    @T.macro
    def init(C, v):
        with T.init():
            C[v] = 0

    @T.macro
    def accumulate(C, A, i, k):
        with T.block("sum"):
            v, r = T.axis.remap("SR", [i, k])
            init(C, v)
            C[v] = C[v] + A[v, r]

    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        for i, k in T.grid(4, 8):
            accumulate(C, A, i, k)

    @T.prim_func
    def g(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        for i, k in T.grid(4, 8):
            with T.block("sum"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v] = 0
                C[v] = C[v] + A[v, r]

    assert structural_equal(f.with_attr("global_symbol", "g"), g)


def test_a_concise_construct_in_a_macro_lasts_to_the_end_of_the_scope_around_its_use() -> None:
    @T.macro
    def thread(n):
        t = T.launch_thread("threadIdx.x", n)

    @T.prim_func
    def f(C: T.Buffer((4,), "int32")):
        thread(4)
        C[0] = 1

    assert f.body.attr_key == "thread_extent" and type(f.body.body).__name__ == "BufferStore"


def test_a_region_can_be_an_argument_of_a_macro() -> None:
    @T.macro
    def view(region):
        V = T.match_buffer(region, offset_factor=1)
        V[0] = 1

    @T.prim_func
    def f(C: T.Buffer((16,), "int32")):
        with T.block("b"):
            T.reads()
            T.writes(C[4:8])
            view(C[4:8])

    assert 'V = T.match_buffer(C[4:8], (4,), "int32", offset_factor=1)' in f.script()


def test_a_macro_may_be_defined_in_a_kernel_and_in_a_text() -> None:
    func = from_source("""
        @T.prim_func
        def f(C: T.Buffer((4,), "int32"), n: T.int32):
            k = T.meta_var(3)
            @T.macro
            def put(i, v=k):
                C[i] = v + n
            put(0)
            put(1, v=5)
    """)
    assert "C[0] = 3 + n" in func.script() and "C[1] = 5 + n" in func.script()


def failing_use(macro: object, body: str) -> ScriptError:
    with pytest.raises(ScriptError) as caught:
        from_source(
            '@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n' + textwrap.indent(body, "    "), {"m": macro}
        )
    return caught.value


def test_an_error_in_a_macro_points_into_it_and_names_the_use() -> None:
    @T.macro
    def wrong(X):
        X[0] = missing  # pyright: ignore[reportUndefinedVariable]

    error = failing_use(wrong, "m(A)")
    assert error.file == __file__ and "X[0] = missing" in str(error)
    (text, span), *_ = error.notes
    assert text == "in the macro wrong, used here" and (span.line, span.column) == (3, 5)


def test_wrong_arguments_of_a_macro_are_reported_at_the_use() -> None:
    error = failing_use(store, "m(A)")
    assert "store needs `i` too" in str(error) and (error.line, error.column) == (3, 5)


def test_a_macro_has_no_value() -> None:
    @T.macro
    def returns(X):
        return X[0]

    assert "a macro has no value to return" in str(failing_use(returns, "m(A)"))
    assert "it stands on a line of its own" in str(failing_use(returns, "A[0] = m(A)"))


def test_a_macro_that_uses_itself_without_end_is_an_error() -> None:
    @T.macro
    def again(X):
        again(X)

    assert "calls itself without end" in str(failing_use(again, "m(A)"))


def test_a_macro_may_use_itself_on_python_values() -> None:
    @T.macro
    def count(C, k):
        C[k] = k
        if k > 0:
            count(C, k - 1)

    @T.prim_func
    def f(C: T.Buffer((4,), "int32")):
        count(C, 2)

    assert [s.value.value for s in f.body.seq] == [2, 1, 0]


def test_a_macro_outside_a_kernel_is_an_error() -> None:
    with pytest.raises(ScriptError, match="no kernel is being read"):
        store(None, 0)


class Tile:
    def __init__(self, size: int) -> None:
        self.size = size

    @T.macro
    def clear(self, X, i):
        X[i * self.size] = 0

    @staticmethod
    @T.macro
    def mark(X):
        X[0] = 9


def test_a_macro_of_an_object_gets_the_object() -> None:
    tile = Tile(8)
    text = "@T.prim_func\ndef f(C: T.Buffer((64,), 'int32'), n: T.int32):\n    {}\n"
    for line, same in (
        ("tile.clear(C, n)", "C[n * 8] = 0"),
        ("tile.mark(C)", "C[0] = 9"),
        ("kind.mark(C)", "C[0] = 9"),
    ):
        made = from_source(text.format(line), {"tile": tile, "kind": Tile})
        assert structural_equal(made, from_source(text.format(same)))


@pytest.mark.parametrize(
    ("line", "reason", "hint"),
    [
        ("tile.clear(C)", "clear needs `i` too", "write clear(self, X, i)"),
        ("tile.clear(C, 1, 2)", "clear takes 3 positional arguments, not 4", "write clear(self, X, i)"),
        ("tile.mark(Y=C)", "mark takes no argument called `Y`", "write mark(X)"),
    ],
)
def test_arguments_that_do_not_fit_a_macro_are_refused_with_its_form(line: str, reason: str, hint: str) -> None:
    with pytest.raises(ScriptError) as caught:
        from_source(f"@T.prim_func\ndef f(C: T.Buffer((4,), 'int32')):\n    {line}\n", {"tile": Tile(8)})
    error = caught.value
    assert (error.reason, error.hint, error.line, error.column) == (reason, hint, 3, 5)
    assert not error.notes


def test_options_of_a_macro_inside_a_kernel_are_checked() -> None:
    for option, reason in (
        ("hygenic=True", "T.macro has no option hygenic"),
        ("hygienic=1", "hygienic is True or False"),
    ):
        with pytest.raises(ScriptError, match=reason):
            from_source(f"@T.prim_func\ndef f():\n    @T.macro({option})\n    def m():\n        pass\n    m()\n")


def test_a_macro_without_end_is_reported_once_for_each_place() -> None:
    with pytest.raises(ScriptError) as caught:
        from_source("@T.prim_func\ndef f():\n    @T.macro\n    def m():\n        m()\n    m()\n")
    assert len(caught.value.notes) == 2


def test_lambdas_are_no_macros() -> None:
    with pytest.raises(TypeError, match="written with `def`"):
        T.macro(lambda X: None)  # pyright: ignore[reportUnknownLambdaType]


@T.macro
def scaled(X, Y):
    for i in range(4):
        with T.block("scale"):
            v = T.axis.spatial(4, i)
            Y[v] = X[v] * 2.0


def test_blocks_of_a_macro_that_is_used_again_are_numbered() -> None:
    @T.prim_func
    def chain(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32"),
              D: T.Buffer((4,), "float32")):  # fmt: skip
        scaled(A, B)
        scaled(B, C)
        scaled(C, D)

    sch = Schedule(chain)
    for name in ("scale", "scale_1", "scale_2"):
        sch.parallel(sch.get_loops(sch.get_block(name))[0])
    assert sch.mod.script().count("T.parallel(4)") == 3
    # The names are part of the program: they are printed, and steps that use them are found again.
    assert_structural_equal(from_source(chain.script()), chain)
    again = Schedule(chain)
    Trace.apply_json_to_schedule(sch.trace.as_json(), again)
    assert_structural_equal(again.mod, sch.mod)


def test_blocks_written_out_keep_their_names() -> None:
    @T.prim_func
    def pair(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        with T.block("scale_1"):
            C[0] = 1.0
        with T.block("scale_1"):
            C[1] = 1.0
        scaled(A, B)
        scaled(B, C)

    root = pair.body.block.body
    assert [s.block.name_hint if hasattr(s, "block") else s.body.block.name_hint for s in root.seq] == [
        "scale_1", "scale_1", "scale", "scale_2",
    ]  # fmt: skip
