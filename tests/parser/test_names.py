"""What names mean in a kernel, and what may be bound when."""

import textwrap
from typing import Any

import pytest

from tscript.ir.function import PrimFunc
from tscript.ir.stmt import For, LetStmt
from tscript.ir.structural import structural_equal
from tscript.script import from_source
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import ScriptError

WIDTH = 16
SCALE = 100


def read(body: str, **extra_vars: Any) -> PrimFunc:
    header = '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "int32"), n: T.int32):\n'
    func = from_source(header + textwrap.indent(textwrap.dedent(body), "    "), extra_vars or None)
    assert isinstance(func, PrimFunc)
    return func


def lines(func: PrimFunc) -> list[str]:
    return [line.strip() for line in func.script().splitlines()[4:]]


def test_values_of_the_module_become_constants() -> None:
    @T.prim_func
    def f(C: T.Buffer((WIDTH,), "int32")):
        for i in range(WIDTH):
            C[i] = SCALE

    assert "C[i] = 100" in f.script() and "range(16)" in f.script()


def test_the_enclosing_function_beats_the_module() -> None:
    def make(SCALE: int) -> PrimFunc:
        @T.prim_func
        def f(C: T.Buffer((WIDTH,), "int32")):
            C[0] = SCALE

        return f

    assert "C[0] = 7" in make(7).script()
    assert "C[0] = 8" in make(8).script()


def test_a_name_only_in_an_annotation_is_found_in_the_enclosing_function() -> None:
    WIDTH = 5
    dtype = "int8"

    @T.prim_func
    def f(C: T.Buffer((WIDTH,), dtype)):
        C[0] = T.int8(1)

    assert 'C: T.Buffer((5,), "int8")' in f.script()


def test_locals_of_a_caller_that_did_not_write_the_kernel_are_not_seen() -> None:
    def g(C: T.Buffer((4,), "int32")):
        C[0] = SCALE

    def decorate(function: Any) -> PrimFunc:
        SCALE = 1
        return T.prim_func(function)

    assert "C[0] = 100" in decorate(g).script()


def test_a_variable_without_a_value_yet_is_unknown() -> None:
    with pytest.raises(ScriptError, match="`later` is not defined(?s:.*)assign `later` before the kernel"):

        @T.prim_func
        def f(C: T.Buffer((4,), "int32")):
            C[0] = later

    later = 1
    assert later == 1


def test_python_runs_while_the_kernel_is_read() -> None:
    def helper(i: Any, *offsets: int, **more: int) -> Any:
        return i + sum(offsets) + sum(more.values())

    table = [1, 2, 3]
    func = read(
        """
        for i in range(4):
            C[helper(i, *table[1:], extra=1)] = table[-1] * 2
            C[0] = [t * i for t in table if t != 2][1]
            C[1] = {k: v for k, v in pairs}["b"] + len({t for t in table}) + sum(t for t in table)
            T.evaluate(T.call_extern("int32", f"{name}_{table[0]:03d}{name!r}", *[a + 1 for a in table], **{}))
            C[2] = (lambda x, y=2: x * y + table[0])(i)
            C[3] = 5 if table else 6
            C[4] = len("abc") if table is not None and "b" in "abc" else None
            C[5] = (not table) + max(table)
        """,
        helper=helper,
        table=table,
        pairs=[("a", 1), ("b", 2)],
        name="ext",
    )
    assert lines(func)[1:] == [
        "C[i + 5 + 1] = 6", "C[0] = 3 * i", "C[1] = 11", "T.call_extern(\"int32\", \"ext_001'ext'\", 2, 3, 4)",
        "C[2] = i * 2 + 1", "C[3] = 5", "C[4] = 3", "C[5] = 3",
    ]  # fmt: skip


def test_comprehensions_may_run_over_python_ranges() -> None:
    assert "C[0] = 6" in read("C[0] = sum([k for k in range(4)])").script()


def test_names_of_a_comprehension_do_not_leak() -> None:
    with pytest.raises(ScriptError, match="`k` is not defined"):
        read("C[0] = sum([k for k in range(4)])\nC[1] = k")


def test_an_element_bound_to_a_name_is_read_once() -> None:
    func = read("x = A[0]\nA[0] = 5.0\nA[1] = x")
    assert isinstance(func.body, LetStmt)
    assert lines(func)[0].startswith("x: T.float32 = A[0]")


def test_a_meta_variable_is_an_alias() -> None:
    func = read("x = T.meta_var(n * 2)\nk = T.meta_var(3)\nC[k] = x\nk = T.meta_var(4)\nC[k] = x")
    assert lines(func) == ["C[3] = n * 2", "C[4] = n * 2"]


def test_a_meta_variable_of_several_values_is_taken_apart() -> None:
    def swap(i: object, j: object) -> tuple[object, object]:
        return j, i

    func = read(
        "a, b = T.meta_var(swap(n, 2))\nfirst, *rest = T.meta_var([1, a, 3])\nC[rest[1]] = rest[0] + b", swap=swap
    )
    assert lines(func) == ["C[3] = 2 + n"]
    with pytest.raises(ScriptError, match="2 names are to be bound, but there is one value"):
        read("a, b = T.meta_var(n * 2)")


def test_a_name_can_be_bound_again_in_its_scope_with_its_type() -> None:
    func = read("x = C[0]\nx = C[1] + x\nx += 1\nC[2] = x")
    assert structural_equal(func, read("x = C[0]\ny = C[1] + x\nz = y + 1\nC[2] = z"))


def test_values_of_a_tuple_are_computed_before_any_is_bound() -> None:
    func = read("x, y = C[0], C[1]\nx, y = y, x\nC[0] = x\nC[1] = y")
    assert structural_equal(func, read("x = C[0]\ny = C[1]\nu = y\nv = x\nC[0] = u\nC[1] = v"))


def test_elements_of_a_list_are_named_by_position() -> None:
    func = read("xs = [C[0], C[1]]\nC[2] = xs[0] + xs[1]")
    assert lines(func)[:2] == ["xs_0: T.int32 = C[0]", "xs_1: T.int32 = C[1]"]
    first, *rest = [1, 2, 3]
    assert "C[0] = 2 + 3" not in read("first, *rest = T.meta_var([1, 2, 3]).value\nC[0] = rest[0]").script()
    assert (first, rest) == (1, [2, 3])


def test_symbolic_sizes_are_variables_named_by_their_binding() -> None:
    func = from_source("""
        @T.prim_func
        def f(a: T.handle, m: T.int64):
            n, k = T.int32(), T.int32(is_size_var=True)
            A = T.match_buffer(a, (n, k))
            B = T.alloc_buffer((m,))
            for i in T.serial(m):
                B[i] = A[0, 0]
    """)
    A = func.buffer_map[func.params[0]]
    assert [s.name for s in A.shape] == ["n", "k"] and A.data.name == "A"
    loop = func.body.block.body
    assert isinstance(loop, For) and str(loop.loop_var.dtype) == "int64"


def test_a_parameter_may_give_the_size_of_a_later_one() -> None:
    func = from_source("@T.prim_func\ndef f(n: T.int32, A: T.Buffer((n * 2,))):\n    A[0] = 1.0")
    assert func.buffer_map[func.params[1]].shape[0] is func.params[0] * 2


def test_inner_scopes_may_reuse_names_of_loops_and_buffers() -> None:
    func = read("""
        for i in range(4):
            for i in range(8):
                C[i] = 0
            C[i] = 1
        for i in range(2):
            C[i] = 2
    """)
    outer = func.body.seq[0]
    assert outer.body.seq[1].indices[0] is outer.loop_var


def test_a_name_that_was_local_is_not_taken_from_the_module_afterwards() -> None:
    with pytest.raises(ScriptError, match=r"`SCALE` has no value here\. It was bound in a branch"):
        read("if n > 0:\n    SCALE = C[0]\nC[1] = SCALE", SCALE=3)


def test_a_branch_known_while_reading_is_written_out_and_keeps_its_names() -> None:
    body = (
        "if big:\n    x = T.meta_var(100)\nelif n > 0:\n    x = T.meta_var(7)\nelse:\n    x = T.meta_var(8)\nC[0] = x"
    )
    assert lines(read(body, big=True)) == ["C[0] = 100"]
    with pytest.raises(ScriptError, match="`x` has no value here"):
        read(body, big=False)


def test_the_name_for_unused_things_may_be_bound_often() -> None:
    func = read("for _, i, _ in T.grid(2, 3, 4):\n    C[i] = 1\n_ = C[0]\n_ = A[0]")
    assert "T.grid(2, 3, 4)" in func.script()


def test_pass_and_texts_leave_nothing() -> None:
    assert lines(read('"""doc"""\npass\n"text"\nC[0] = 1\npass')) == ["C[0] = 1"]
    assert lines(read("pass")) == ["T.evaluate(0)"]


def test_annotations_may_be_texts() -> None:
    func = from_source("""@T.prim_func\ndef f(A: 'T.Buffer((4,), "int8")', n: 'T.int32') -> 'T.int32':\n    return n""")
    assert 'A: T.Buffer((4,), "int8"), n: T.int32) -> T.int32' in func.script()


def test_names_given_by_hand_win_over_the_usual_ones() -> None:
    assert "C[0] = 5" in read("C[0] = ir", ir=5).script()


def test_numpy_numbers_are_constants_of_their_type() -> None:
    import numpy as np

    func = read("A[0] = f * A[1]\nC[i8] = i8 * C[0]", f=np.float32(2), i8=np.int32(3))
    assert lines(func) == ["A[0] = T.float32(2.0) * A[1]", "C[3] = 3 * C[0]"]


def test_other_python_values_can_be_named_in_a_kernel() -> None:
    func = read('dtype = "int8"\nscale = double\nx = T.Cast(dtype, C[0])\nC[1] = scale(x)', double=lambda v: v * 2)
    assert lines(func)[0] == 'x: T.int8 = T.Cast("int8", C[0])'


def test_a_pointer_keeps_its_type_in_a_let() -> None:
    func = read('q = T.address_of(A[1])\nr = q\nT.evaluate(T.call_extern("int32", "g", q, r))')
    data = func.buffer_map[func.params[0]].data
    assert func.body.var.type_annotation is data.type_annotation
    assert func.body.body.var.type_annotation is data.type_annotation


def test_the_pointer_of_a_buffer_can_be_named_and_keeps_its_own_name() -> None:
    func = read('p = C.data\nT.evaluate(T.call_extern("int32", "g", p))')
    assert func.body.value.args[1] is func.buffer_map[func.params[1]].data
    assert func.buffer_map[func.params[1]].data.name == "C"


def test_old_spellings_work() -> None:
    from tscript.support.errors import ScriptWarning

    func = from_source(
        "@T.prim_func\ndef f(p: T.Ptr('float32')):\n    A = T.buffer_decl((4,), data=p)\n    A[0] = 1.0",
        check_well_formed=False,
    )
    assert "T.handle" in func.script()
    let = read('x = T.var("int32")\nwith T.let(x, 3):\n    C[x] = 1')
    assert lines(let) == ["x: T.int32 = 3", "C[x] = 1"]
    with pytest.warns(ScriptWarning, match="old spelling"):
        buffer = T.Buffer[(16,), "int8"]  # pyright: ignore[reportInvalidTypeArguments]
    assert (int(buffer.shape[0]), str(buffer.dtype)) == (16, "int8")


def test_statements_of_kernels_say_so_outside_one() -> None:
    with pytest.raises(ScriptError, match="no kernel is being read"):
        T.evaluate(0)
    with pytest.raises(ScriptError, match="no kernel is being read"):
        with T.block("b"):
            pass


def test_decorators_say_what_they_are_for() -> None:
    from tscript.script import ir as I

    with pytest.raises(TypeError, match=r"use @I\.ir_module"):
        T.prim_func(int)
    with pytest.raises(TypeError, match=r"use @T\.prim_func"):
        I.ir_module(lambda: 0)
    with pytest.raises(TypeError, match=r"@T.macro is for functions"):
        T.macro(3)


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ('with T.block("b"):\n    vi = T.axis.spatial(16, 0)\n    A[vl] = 1.0', "did you mean `vi`?"),
        ("for i in rang(4):\n    A[i] = 1.0", "did you mean `range`?"),
        ("for i in grid(4):\n    A[i] = 1.0", "did you mean `T.grid`?"),
        ('with block("b"):\n    A[0] = 1.0', "did you mean `T.block`?"),
        ("A[0] = exp(A[0])", "did you mean `T.exp`?"),
        ("A[0] = widht", "did you mean `width`?"),
        # Builtins of Python are meant only when they are nearly the same.
        ("A[0] = math.exp(1)", None),
    ],
)
def test_the_name_that_was_meant_is_looked_for_in_the_kernel_before_python(body: str, hint: str | None) -> None:
    with pytest.raises(ScriptError, match="is not defined") as caught:
        read(body, width=3)
    assert caught.value.hint == hint


def test_a_class_in_a_function_lends_its_kernels_the_names_around_it() -> None:
    size = 3

    class Holder:
        width = size + 1

        @T.prim_func
        def kernel(A: "T.Buffer((size, width), 'int8')"):
            A[0, 0] = T.int8(1)

        class Inner:
            @T.prim_func
            def kernel(A: "T.Buffer((size, 4), 'int8')"):
                A[0, 0] = T.int8(1)

        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: "T.Buffer((size, 4), 'int8')"):
                A[0, 0] = T.int8(1)

    for f in (Holder.kernel, Holder.Inner.kernel, Holder.Module["main"]):
        assert [int(e) for e in f.buffer_map[f.params[0]].shape] == [3, 4]


def test_a_class_does_not_see_the_names_of_the_class_around_it() -> None:
    with pytest.raises(ScriptError, match="`width` is not defined"):

        class Holder:
            width = 4

            class Inner:
                @T.prim_func
                def kernel(A: "T.Buffer((width,), 'int8')"):  # pyright: ignore[reportUndefinedVariable]
                    A[0] = T.int8(1)
