"""Kernels are read wherever people type them."""

import doctest
import linecache
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

from tscript.ir.function import PrimFunc
from tscript.ir.structural import structural_equal
from tscript.parser import source
from tscript.script import from_source
from tscript.script import tir as T
from tscript.support.errors import ScriptError

KERNEL = """\
from tscript.script import tir as T, ir as I
value = 5
@T.prim_func
def f(C: T.Buffer((4,), "int32")):
    C[0] = value
"""


def test_a_kernel_given_to_exec_is_read() -> None:
    names: dict[str, object] = {}
    exec(KERNEL, names)
    func = names["f"]
    assert isinstance(func, PrimFunc) and "C[0] = 5" in func.script()


def test_an_error_in_a_kernel_given_to_exec_shows_its_line() -> None:
    text = KERNEL.replace("value\n", "valeu\n")
    with pytest.raises(ScriptError) as caught:
        exec(text, {})
    assert caught.value.line == 5 and "    C[0] = valeu" in str(caught.value)


def test_a_class_given_to_exec_is_read() -> None:
    text = textwrap.dedent("""
        from tscript.script import tir as T, ir as I
        @I.ir_module
        class M:
            @T.prim_func
            def f(C: T.Buffer((4,), 'int32')):
                C[0] = 7
    """)
    names: dict[str, object] = {}
    exec(text, names)
    assert "C[0] = 7" in names["M"].script()


def test_code_whose_text_is_gone_is_refused_with_what_to_do() -> None:
    code = compile(KERNEL.replace("value", "wert"), "<string>", "exec")
    with pytest.raises(ScriptError, match="the source text of `f` is not available") as caught:
        exec(code, {})
    assert "from_source(text)" in str(caught.value)


def test_a_cell_that_is_run_twice_with_changes_is_read_anew() -> None:
    results = []
    for value in (1, 2):
        text = KERNEL.replace("value = 5", f"value = {value}").replace("C[0] = value", f"C[0] = value + {value}")
        # As notebooks do: each run of a cell has its own name, known to linecache.
        name = f"<ipython-input-1-{value}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        names: dict[str, object] = {}
        exec(compile(text, name, "exec"), names)
        results.append(names["f"].script())
    assert "C[0] = 2" in results[0] and "C[0] = 4" in results[1]


def test_a_kernel_in_a_doctest_is_read() -> None:
    example = """
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def f(C: T.Buffer((4,), "int32")):
    ...     C[0] = 3
    >>> "C[0] = 3" in f.script()
    True
    """
    test = doctest.DocTestParser().get_doctest(example, {}, "example", "example.py", 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test)
    assert runner.failures == 0 and runner.tries == 3


def test_a_command_line_text_is_read_and_input_without_text_says_what_to_do() -> None:
    package = Path(T.__file__).parents[2]
    script = "import tscript.printer\n" + KERNEL + "print(f)\n"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=package, timeout=50)
    assert "C[0] = 5" in run.stdout, run.stderr
    piped = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, cwd=package, timeout=50)
    assert "C[0] = 5" in piped.stdout or "from_source(text)" in piped.stderr


def test_annotations_that_python_does_not_evaluate_are_read() -> None:
    names: dict[str, object] = {}
    text = "from __future__ import annotations\n" + textwrap.dedent("""
        from tscript.script import tir as T
        def make(n):
            dtype = "int8"
            @T.prim_func
            def f(C: T.Buffer((n,), dtype)):
                C[0] = T.int8(1)
            return f
    """)
    exec(text, names)
    assert '(6,), "int8"' in names["make"](6).script()


def test_the_text_is_taken_whole_in_spite_of_less_indented_lines() -> None:
    if True:

        @T.prim_func
        def f(
            C: T.Buffer((4,), "int32"),
        ):
            # comment
            # comment further out
            x = T.meta_var("""
text at the margin
""")
            C[0] = len(x)
            C[1] = 1 + 1

    assert "C[0] = 20" in f.script() and "C[1] = 2" in f.script()


def test_the_last_function_of_a_file_without_a_final_newline_is_read(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(KERNEL.rstrip("\n"))
    names = {"__name__": "kernels"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    assert "C[0] = 5" in names["f"].script()


def test_a_file_that_changed_since_it_was_loaded_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("\n" * 5)
    with pytest.raises(ScriptError, match="the text changed after Python read it"):
        exec(compile(KERNEL, str(file), "exec"), {})


def test_positions_are_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("# ä\n\n\n" + KERNEL.replace("C[0] = value", "'ä'; C[0] = valeu"))
    with pytest.raises(ScriptError) as caught:
        exec(compile(file.read_text(), str(file), "exec"), {})
    error = caught.value
    assert (error.file, error.line, error.column) == (str(file), 8, 17)


def test_tabs_and_one_line_bodies_are_read() -> None:
    func = from_source("\t@T.prim_func\n\tdef f(C: T.Buffer((4,), 'int32')): C[0] = 1; C[1] = 2")
    assert len(func.body.seq) == 2


def test_values_may_be_named_before_the_function_of_a_text() -> None:
    func = from_source("n = 4\nm = n * 2\n@T.prim_func\ndef f(C: T.Buffer((m,), 'int32')):\n    C[0] = n")
    assert "T.Buffer((8,)" in func.script() and "C[0] = 4" in func.script()


def test_a_text_with_its_metadata_reads_back() -> None:
    text = "line\nbreak"
    func = from_source("@T.prim_func\ndef f():\n    T.func_attr({'k': text})", {"text": text})
    shown = func.script(show_meta=True)
    assert shown.startswith("metadata = ")
    assert structural_equal(from_source(shown), func)


def test_an_undecorated_function_or_class_can_be_given() -> None:
    def g(C: T.Buffer((4,), "int32")):
        C[0] = 9

    class M:
        @T.prim_func
        def f(C: T.Buffer((4,), "int32")):
            C[0] = 8

    assert "C[0] = 9" in from_source(g).script()
    assert isinstance(M.f, PrimFunc)
    with pytest.raises(TypeError, match="not an int"):
        from_source(3)


def test_the_same_text_has_the_same_file_name_and_can_be_shown() -> None:
    text = '@T.prim_func\ndef f(C: T.Buffer((4,), "int32")):\n    C[0] = 1'
    a, b = from_source(text), from_source(text)
    assert a.span == b.span and a.span.source_line() == 'def f(C: T.Buffer((4,), "int32")):'
    linecache.checkcache()
    assert a.span.source_line() is not None


def test_decorating_a_function_without_code_of_its_own_is_refused() -> None:
    bare = types.FunctionType(compile(" ".join(["def", "f():", "pass"]), "<nowhere>", "exec").co_consts[0], {})
    with pytest.raises(ScriptError, match="is not available"):
        T.prim_func(bare)


def test_lambdas_and_coroutines_are_refused() -> None:
    async def f(C: T.Buffer((4,), "int32")):
        pass

    for function in (lambda C: C, f):
        with pytest.raises(TypeError, match="written with `def`"):
            T.prim_func(function)


CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
cell = '''from tscript.script import tir as T
@T.prim_func
def f(C: T.Buffer((4,), "int32")):
    C[0] = %s
'''
for value in ("1", "2", "2", "wrong"):
    result = shell.run_cell(cell % value)
    error = result.error_in_exec
    if error is None:
        print(value, f"C[0] = {value}" in shell.user_ns["f"].script())
    else:
        print(error.line, error.column, "C[0] = wrong" in str(error))
"""


def test_cells_of_a_notebook_are_read_each_time_they_run(tmp_path: Path) -> None:
    script = tmp_path / "cells.py"
    script.write_text(CELLS)
    package = Path(T.__file__).parents[2]
    env = {"PYTHONPATH": str(package), "IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=50, env=env)
    lines = [line for line in run.stdout.splitlines() if line.endswith(("True", "False"))]
    assert lines == ["1 True", "2 True", "2 True", "4 12 True"], run.stderr + run.stdout


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("", "the text holds no function or class", None),
        ("# nothing\n", "the text holds no function or class", None),
        ("f = lambda: 0\n", "the text holds no function or class", None),
        ("def f():\n  \0", "null bytes", (1, 1)),
        ("x = 1\ny = '\udc80'\n", "half of a character", (2, 6)),
        ("@T.prim_func\nasync def f():\n    pass\n", "not `async def`", (2, 1)),
        ("(" * 100_000, "too many nested parentheses", None),
        ("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(" + "-" * 100_000 + "n)", "nested too deeply", None),
        ("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(" + "not " * 3_000 + "n)", "nested too deeply", None),
        ("@T.macro\ndef f(A):\n    pass\n", "`f` is a macro", (2, 1)),
        ("x" * 1_000_000, "the text must hold one function or class", (1, 1)),
        ("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(" + "9" * 5_000 + ")", "this is no Python", None),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_text_that_is_no_kernel_is_refused(text: str, reason: str, place: tuple[int, int] | None) -> None:
    with pytest.raises(ScriptError) as caught:
        from_source(text)
    assert reason in caught.value.reason
    assert len(str(caught.value)) < 2_000
    if place is not None:
        assert (caught.value.line, caught.value.column) == place


def test_the_mark_some_editors_put_first_is_no_part_of_the_text() -> None:
    assert from_source("\ufeff@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(n)\n").__name__ == "f"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_where_python_ends_them(end: str) -> None:
    lines = [
        "@T.prim_func",
        "def f(n: T.int32):",
        '    T.evaluate(T.call_extern("int32", "\u2028\x0b\x0c\x1c", m))',
        "",
    ]
    with pytest.raises(ScriptError) as caught:
        from_source(end.join(lines))
    error = caught.value
    assert (error.line, error.column) == (3, lines[2].index("m))") + 1)
    assert lines[2] in str(error)


def test_of_a_very_long_line_only_the_neighbourhood_is_shown() -> None:
    terms = " + ".join(["n"] * 300)
    with pytest.raises(ScriptError) as caught:
        from_source(f"@T.prim_func\ndef f(n: T.int32):\n    T.evaluate({terms} + wrong + {terms})\n")
    shown = str(caught.value).splitlines()
    line = next(i for i, text in enumerate(shown) if text.startswith("3 | "))
    assert len(shown[line]) < 300
    assert shown[line][shown[line + 1].index("^") :].startswith("wrong")
    assert shown[line + 1].count("^") == len("wrong")


def test_only_the_latest_texts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MOST_TEXTS", 3)
    monkeypatch.setattr(source, "_texts", {})
    names = [source.register_text(f"# text {k}", "kept") for k in range(6)]
    assert [bool(linecache.getlines(n)) for n in names] == [False, False, False, True, True, True]
