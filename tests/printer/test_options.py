"""Options: prefixes, underlines, remarks, line numbers, metadata, unknown ones."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.construct import const
from tscript.ir.expr import Var
from tscript.ir.json_io import load_json
from tscript.ir.structural import structural_equal
from tscript.parser import from_source
from tscript.printer import PrintOptions, register_printable, render, script

TEXT = """@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
        A[i] = A[i] + A[i]
    for i, j in T.grid(8, 8):
        if i < j:
            A[i] = 0"""
HEADER = "# from tvm.script import tir as T\n\n"


@pytest.fixture
def func():
    return from_source(TEXT)


def test_a_statement_is_underlined_line_by_line(func) -> None:
    first = func.body.seq[0]
    assert (
        func.script(obj_to_underline=[first])
        == HEADER
        + """@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
    ^^^^^^^^^^^^^^^^^^^^^^^
        A[i] = A[i] + A[i]
        ^^^^^^^^^^^^^^^^^^
    for i, j in T.grid(8, 8):
        if i < j:
            A[i] = 0"""
    )


def test_an_object_is_underlined_wherever_it_stands(func) -> None:
    store = func.body.seq[0].body
    assert store.script(obj_to_underline=[store.value.a]).endswith("A[i] = A[i] + A[i]\n       ^^^^   ^^^^")


def test_a_path_is_underlined_in_one_place(func) -> None:
    path = ("body", "seq", 0, "body", "value", "b")
    lines = func.script(path_to_underline=[path]).split("\n")
    at = lines.index("        A[i] = A[i] + A[i]")
    assert lines[at + 1] == "                      ^^^^"
    assert sum("^" in line for line in lines) == 1


def test_the_inner_loop_of_a_grid_is_underlined_as_the_grid(func) -> None:
    inner = func.body.seq[1].body
    lines = func.script(obj_to_underline=[inner]).split("\n")
    assert lines[lines.index("    for i, j in T.grid(8, 8):") + 1] == "    " + "^" * 25


def test_lines_far_from_an_underline_are_left_out(func) -> None:
    inner = func.body.seq[1].body.body.then_case
    text = func.script(obj_to_underline=[inner], num_context_lines=1)
    assert (
        text
        == """(... 7 lines skipped ...)
        if i < j:
            A[i] = 0
            ^^^^^^^^"""
    )
    numbered = func.script(obj_to_underline=[inner], num_context_lines=1, print_line_numbers=True)
    assert (
        numbered
        == """  (... 7 lines skipped ...)
8         if i < j:
9             A[i] = 0
              ^^^^^^^^"""
    )


def test_a_single_line_is_not_left_out(func) -> None:
    first = func.body.seq[0]
    text = func.script(path_to_underline=[("body", "seq", 0, "body"), ("body", "seq", 1, "body", "body", "then_case")],
                       num_context_lines=1)  # fmt: skip
    assert "for i, j in T.grid(8, 8):" in text
    assert "(... 4 lines skipped ...)" in text
    assert first is not None


def test_line_numbers_are_aligned() -> None:
    body: st.Stmt = st.SeqStmt([st.Evaluate(const(i)) for i in range(10)])
    lines = body.script(print_line_numbers=True).split("\n")
    assert lines[0] == " 1 T.evaluate(0)"
    assert lines[9] == "10 T.evaluate(9)"


def test_remarks_stand_above_loops_and_behind_statements(func) -> None:
    loop, store = func.body.seq[0], func.body.seq[0].body
    text = func.script(obj_to_annotate={loop: "hot\nloop", store: "twice"})
    assert "    # hot\n    # loop\n    for i in T.parallel(8):\n        A[i] = A[i] + A[i]  # twice\n" in text
    by_path = func.script(path_to_annotate={("body", "seq", 1, "body", "body"): "triangle"})
    assert "        # triangle\n        if i < j:\n" in by_path


def test_a_remark_on_a_let_keeps_it_from_the_short_form() -> None:
    let = st.LetStmt(Var("x"), const(1), st.Evaluate(const(0)))
    assert let.script() == "x: T.int32 = 1\nT.evaluate(0)"
    assert let.script(obj_to_annotate={let: "one"}) == "# one\nwith T.LetStmt(1) as x:\n    T.evaluate(0)"


def test_carets_stay_under_the_statement_and_not_its_remark(func) -> None:
    store = func.body.seq[0].body
    lines = func.script(obj_to_annotate={store: "twice"}, obj_to_underline=[store]).split("\n")
    assert lines[lines.index("        A[i] = A[i] + A[i]  # twice") + 1] == "        " + "^" * 18


def test_prefixes_can_be_chosen(func) -> None:
    text = func.script(tir_prefix="X")
    assert text.startswith("# from tvm.script import tir as X\n\n@X.prim_func\n")
    assert Var("X").script(tir_prefix="X") == "X_1"
    assert Var("T").script(tir_prefix="X") == "T"
    assert Var("cls").script(module_alias="") == "cls"


def test_a_bad_prefix_is_refused(func) -> None:
    with pytest.raises(ValueError, match="Invalid `tir_prefix`: '1x' is not an identifier"):
        func.script(tir_prefix="1x")


def test_an_unknown_option_is_refused_with_the_closest_one(func) -> None:
    with pytest.raises(TypeError, match="no option 'show_metadata'; did you mean show_meta"):
        func.script(show_metadata=True)
    with pytest.raises(TypeError, match="no option 'syntax_suger'; did you mean syntax_sugar"):
        func.show(syntax_suger=True)


def test_other_options_change_what_they_name(func) -> None:
    assert func.script(name="other").startswith(HEADER + '@T.prim_func\ndef other(A: T.Buffer((8,), "int32")):\n'
                                                 '    T.func_attr({"global_symbol": "f"})')  # fmt: skip
    assert "\n  for i in T.parallel(8):\n    A[i]" in func.script(indent_spaces=2)
    by_handle = from_source(
        "@T.prim_func\ndef f(a: T.handle):\n    A = T.match_buffer(a, (4,), align=128)\n    A[0] = 1.0"
    )
    assert 'T.match_buffer(a, (4,), "float32", align=128)' in by_handle.script(buffer_dtype="int8")


def test_text_of_several_lines_becomes_metadata_that_reads_back() -> None:
    text = ex.StringImm('a\n"""b\\')
    call = ex.Call("int32", "tir.call_extern", (ex.StringImm("f"), text, text))
    body = st.Evaluate(call)
    shown = 'T.call_extern("int32", "f", metadata["tir.StringImm"][0], metadata["tir.StringImm"][0])'
    assert body.script() == shown + "\n# Metadata omitted. Use show_meta=True in script() method to show it."
    lines = body.script(show_meta=True)
    assert lines.startswith('metadata = tvm.ir.load_json("""')
    assert lines.endswith('""")\n' + shown)
    loaded: list[str] = []

    class tvm:
        class ir:
            load_json = staticmethod(loaded.append)

    exec(lines.split("\n")[0], {"tvm": tvm})
    assert load_json(loaded[0]) == {"tir.StringImm": (text,)}


def test_metadata_keeps_arrays_and_programs(func) -> None:
    class Other:
        pass

    printed = st.AttrStmt(np.arange(3, dtype="int16"), "k", const(1), st.Evaluate(const(0)))
    assert 'T.attr(metadata["runtime.NDArray"][0], "k", 1)' in printed.script()
    text = printed.script(show_meta=True).split('"""')[1]
    (array,) = load_json(text)["runtime.NDArray"]
    assert array.dtype == "int16" and array.tolist() == [0, 1, 2]
    # A node of a class that no statement of the language makes.
    nested = st.AttrStmt(func, "k", const(1), st.Evaluate(const(0)))
    (back,) = load_json(nested.script(show_meta=True).split('"""')[1])["tir.PrimFunc"]
    assert structural_equal(back, func)
    with pytest.raises(TypeError, match="Other"):
        st.AttrStmt(Other(), "k", const(1), st.Evaluate(const(0))).script(show_meta=True)


def test_another_package_can_teach_the_printer_a_class() -> None:
    class Tile:
        size = 4

    register_printable(Tile, lambda tile, tir: f"{tir('tile')}({tile.size})")
    body = st.AttrStmt(Tile(), "k", const(1), st.Evaluate(const(0)))
    assert body.script(tir_prefix="X").startswith('X.attr(X.tile(4), "k", 1)')
    with pytest.raises(ValueError, match="Tile prints in one way already"):
        register_printable(Tile, lambda tile, tir: "")


def test_spans_tell_where_a_node_stands(func) -> None:
    printed = render(func)
    assert printed.text == func.script()
    lines = printed.text.split("\n")
    store = func.body.seq[0].body
    (span,) = printed.find(store)
    assert lines[span.line - 1][span.column - 1 : span.end_column - 1] == "A[i] = A[i] + A[i]"
    loads = printed.find(store.value.a)
    assert [lines[s.line - 1][s.column - 1 : s.end_column - 1] for s in loads] == ["A[i]", "A[i]"]
    (loop,) = printed.find(func.body.seq[1].body)
    assert (loop.line, loop.end_line) == (7, 9)
    assert printed.find(Var("elsewhere")) == ()


def test_every_span_lies_within_its_lines(func) -> None:
    printed = render(func, PrintOptions(indent_spaces=3))
    lines = printed.text.split("\n")
    for span in printed.spans:
        assert 1 <= span.line <= span.end_line <= len(lines)
        assert 1 <= span.column <= len(lines[span.line - 1])
        assert span.column < span.end_column or span.line < span.end_line
        assert span.end_column <= len(lines[span.end_line - 1]) + 1


def test_tracking_changes_nothing_in_the_text(func) -> None:
    for options in ({}, {"syntax_sugar": False}, {"verbose_expr": True}):
        assert render(func, PrintOptions(**options)).text == script(func, **options)
    x, A = Var("x"), decl_buffer((4,), name="A")
    deep: ex.PrimExpr = A[x]
    for _ in range(3000):
        deep = deep + A[x]
    assert render(deep).text == deep.script()


@pytest.mark.parametrize(
    ("option", "value", "error", "text"),
    [
        ("name", 5, TypeError, "Invalid `name`: it is a text or None, not an int"),
        ("name", "a b", ValueError, "Invalid `name`: 'a b' is not an identifier"),
        ("tir_prefix", "class", ValueError, "Invalid `tir_prefix`: 'class' is not an identifier"),
        ("tir_prefix", None, TypeError, "Invalid `tir_prefix`: it is a text, not None"),
        ("tir_prefix", "I", ValueError, "Invalid `tir_prefix`: 'I' is the `ir_prefix` too"),
        ("int_dtype", None, TypeError, "Invalid `int_dtype`: it is a text, not None"),
        ("int_dtype", "int33", ValueError, "unknown data type 'int33'"),
        ("indent_spaces", "a", TypeError, "Invalid `indent_spaces`: it is a number, not a str"),
        ("syntax_sugar", "no", TypeError, "Invalid `syntax_sugar`: it is True or False, not a str"),
        ("path_to_underline", 5, TypeError, "Invalid `path_to_underline`: it holds nodes or paths, not an int"),
        ("obj_to_underline", "x", TypeError, "Invalid `obj_to_underline`: it holds nodes or paths, not a str"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused(option: str, value: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        script(Var("i") + 1, **{option: value})
