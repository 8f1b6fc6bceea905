"""Each mistake is reported at its exact place: the offending text is marked «so» in the sources."""

import textwrap
import traceback
from pathlib import Path

import pytest

import tscript
from tscript.script import from_source
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.config import configure
from tscript.support.errors import ScriptError

HEADER = """\
@T.prim_func
def f(
    a: T.handle,
    n: T.int32,
    A: T.Buffer((4, 4), "float32"),
    B: T.Buffer((4,), "int64"),
    C: T.Buffer((4,), "int32"),
    D: T.Buffer((4,), "bool"),
    E: T.Buffer((4,), "float32"),
):
"""


def error_of(marked: str, **extra_vars: object) -> ScriptError:
    """The error of a source, having checked that it stands at the mark."""
    text = textwrap.dedent(marked)
    assert text.count("«") == text.count("»") == 1
    before, rest = text.split("«")
    inside, after = rest.split("»")
    with pytest.raises(ScriptError) as caught:
        from_source(before + inside + after, extra_vars or None)
    error = caught.value
    assert error.span is not None, error.reason
    start = (before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    assert (error.line, error.column) == start, str(error)
    if "\n" not in inside:
        assert (error.span.end_line, error.span.end_column) == (start[0], start[1] + len(inside)), str(error)
    return error


BODIES = [
    (
        'for i in range(4):\n    with T.block("b"):\n        vi = T.axis.spatial(4, i)\n        «E[i] = 1.0»',
        "the loop variable i is used inside a block that has axes",
    ),
    ("C[0] = «None»", "None cannot be used as a scalar value"),
    ("C[0] = «T.evaluate(n)»", "None cannot be used as a scalar value"),
    ("«C[4:0]» = 1", "the slice of C is empty"),
    ("x: T.int32 = «1.5»", "1.5 is no integer"),
    ("x: T.int8 = «300»", "300 does not fit in int8"),
    ('x: «"T.int33"» = n', "has no attribute `int33`"),
    ('x: «"T.("» = n', "the annotation is no Python"),
    ("«C[0] -= B[0:2]»", "the target has 1 lanes, the value 2"),
    ("y = «undefined_name»", "`undefined_name` is not defined"),
    ("y = «rang»(4)", "did you mean `range`"),
    ("«a = b = C[0]»", "one assignment binds one target, and `a = b = c` has two"),
    ("for i in «[1, 2]»:\n    pass", "a `for` runs over one of range, T.serial"),
    ("for i in «range(0, 8, 2)»:\n    pass", "too many positional arguments"),
    ("for i in «T.serial(0, 8, 2)»:\n    pass", "positional arguments"),
    ("for i in «T.serial(1.5)»:\n    pass", "the bounds of a loop are integers, not float32"),
    ("C[0] = «A[0]»", "A has 2 dimensions, but 1 subscript was given; write A[i, j]"),
    ("«A[0]» = 1.0", "A has 2 dimensions, but 1 subscript was given; write A[i, j]"),
    ("«A[0]» += 1.0", "A has 2 dimensions, but 1 subscript was given; write A[i, j]"),
    ("E[0] = «E[E[0]]»", "subscript 0 of E is float32; subscripts are integers"),
    ("if «C[0] < B[0]»:\n    pass", "a comparison of int32 with int64"),
    ("E[0] = «C[0] / 2»", "the quotient of two integers could be rounded either way"),
    ("C[0] = «C[0] // 0»", "division by the constant zero"),
    ("C[0] = «C[0] ** 2»", "use T.pow"),
    ("C[0] = «+C[0]»", "leave out the sign"),
    ("C[0] = «1 // 0»", "integer division or modulo by zero"),
    ("C[0] = «[1, 2][5]»", "list index out of range"),
    ('C[0] = «{"k": 1}["j"]»', "KeyError: 'j'"),
    ("E[0] = «E[0] if D[0] else E[1]»", "T.if_then_else"),
    ("D[0] = «C[0] and D[0]»", "`and` takes bools, not int32"),
    ("D[0] = «not C[0]»", "`not` takes a bool, not int32"),
    ('with T.block("b"):\n    T.reads(C[0])\n    «T.reads(C[1])»', "the block has T.reads already"),
    ('with T.block("b"):\n    T.writes(C[0])\n    «T.writes(C[1])»', "the block has T.writes already"),
    (
        'with T.block("b"):\n    with T.init():\n        C[0] = 0\n    with «T.init()»:\n        C[0] = 0',
        "the block has an init already",
    ),
    ('with T.block("b"):\n    T.where(n < 3)\n    «T.where(n < 3)»', "the block has a T.where already"),
    ('with T.block("b"):\n    T.block_attr({})\n    «T.block_attr({})»', "the block has T.block_attr already"),
    ("x = T.handle()\nX = «T.match_buffer(x, (4,))»", "T.match_buffer binds a parameter"),
    ("X = «T.match_buffer(a)»", "T.match_buffer of a parameter needs a shape"),
    ("X = T.match_buffer(a, (4,))\nY = «T.match_buffer(a, (4,))»", "bound to a buffer already"),
    (
        'for i, j in T.grid(4, 4):\n    with T.block("b"):\n        vi, vj = «T.axis.remap("SX", [i, j])»',
        "`X` is no kind of axis",
    ),
    (
        'for i in range(4):\n    with T.block("b"):\n        vi = «T.axis.remap("S", [i + 1])»',
        "T.axis.remap binds loop variables",
    ),
    ('with T.block("b"):\n    v = «T.axis.remap("S", [n])»', "no variable of a loop"),
    ('with T.block("b"):\n    v = «T.axis.spatial(4, 1.5)»', "the value of an axis is an integer, not float32"),
    ("v = «T.axis.spatial(4, n)»", "T.axis belongs at the top of a block"),
    (
        'with T.block("b"):\n    for i in range(4):\n        v = «T.axis.spatial(4, i)»',
        "T.axis belongs at the top of a block",
    ),
    ("for i in range(4):\n    X = «T.alloc_buffer((4,))»", "T.alloc_buffer belongs directly in a block or a function"),
    ("x = C[0]\nX = «T.alloc_buffer((4,))»", "T.alloc_buffer belongs directly in a block or a function"),
    ("with «C[0]»:\n    pass", "`with` takes a construct of the kernel language, and this is none"),
    ('with T.block("b") as «v»:\n    pass', "binds nothing"),
    ("with «T.init()»:\n    pass", "T.init stands outside any block"),
    ("«T.where(n < 3)»", "T.where stands outside any block"),
    ("while True:\n    «break»", "is no part of the kernel language"),
    ("for i in range(4):\n    «continue»", "is no part of the kernel language"),
    ("«try:\n    pass\nfinally:\n    pass»", "is no part of the kernel language"),
    ("«import os»", "is no part of the kernel language"),
    ("«global x»", "is no part of the kernel language"),
    ("«del C»", "is no part of the kernel language"),
    ("«raise ValueError»", "is no part of the kernel language"),
    ("C[0] = («y := 1»)", "is no part of the kernel language"),
    ("«def g»():\n    pass", "without a decorator"),
    ("«return»", "cannot return nothing"),
    ("«assert n > 0»", "an assertion needs a message"),
    ('assert «n», "text"', "an assertion takes a bool, not int32"),
    ('assert «1 > 2», "text"', "fails while the kernel is read: text"),
    ("if «n»:\n    pass", "an if statement takes a bool, not int32"),
    ("if «None»:\n    pass", "a condition is a bool, not None"),
    ("while «n»:\n    pass", "a while loop takes a bool, not int32"),
    ("for i in range(4):\n    pass\nelse:\n    «pass»", "a loop has no `else`"),
    ("«{1: 2}»", "a dict is no statement"),
    ("«T.serial(4)»", "a loop is written `for i in ...:`"),
    ("x: T.int32 = «E[0]»", "x is int32 but its value is float32"),
    ("x: «3» = C[0]", "a type is written as T.int32"),
    ("x = C[0]\n«x» = E[0]", "`x` is already bound in this scope"),
    ("X = T.alloc_buffer((4,))\n«X» = C[0]", "`X` is already bound in this scope"),
    ("«n» = C[0]", "`n` is already bound in this scope"),
    ("x = C[0]\nif n > 0:\n    «x» = C[1]", "the new value would be lost after the branch"),
    ("x = C[0]\nfor i in range(4):\n    «x» += C[i]", "the new value would be lost after the loop"),
    ("x = C[0]\nwith T.block():\n    «x» = C[1]", "the new value would be lost after the with block"),
    ("if n > 0:\n    x = C[0]\nC[1] = «x»", "`x` has no value here. It was bound in a branch at line 12"),
    ("for i in range(4):\n    pass\nC[«i»] = 1", "`i` has no value here. It was bound in a loop"),
    ("«C[0], C[1]» = C[1], C[0]", "elements of buffers are assigned one at a time"),
    ("«x, y» = T.int32(), T.int32(), T.int32()", "2 names are to be bound to 3 values"),
    ("for «i, j» in T.grid(4, 4, 4):\n    pass", "2 names are to be bound to 3 values"),
    ("for «i, j» in T.serial(4):\n    pass", "2 names are to be bound, but there is one value"),
    ("«C.shape» = 1", "`C.shape` cannot be assigned"),
    ("E[0] = «T.flaot32»(1)", "did you mean `float32`"),
    ("E[0] = «C.shap»[0]", "did you mean `shape`"),
    ("E[0:2] = «E[0:n]»", "a vector of E needs a constant number of lanes"),
    ("E[0:4] = «1.0»", "the target has 4 lanes, the value 1"),
    ("E[0] = «E[0:4]»", "the target has 1 lanes, the value 4"),
    ('C[0] = «"text"»', "a text or pointer cannot be stored in C"),
    ("C[0] = «a»", "a text or pointer cannot be stored in C"),
    ("C[0] = «1 << 40»", "1099511627776 does not fit in C"),
    ('T.func_attr({"k": 1})\n«T.func_attr({"k": 2})»', "the function attribute 'k' is set twice"),
    ("«T.func_attr([1])»", "T.func_attr takes a dict, not a list"),
    ("with «T.Then()»:\n    pass", "T.Then stands outside T.If"),
    ("«with T.If(n > 0)»:\n    C[0] = 1", "T.If holds only T.Then and T.Else"),
    (
        't = T.env_thread("threadIdx.x")\nwith T.launch_thread(t, 4):\n    C[0] = t\n'
        "with «T.launch_thread(t, 8)»:\n    C[1] = t",
        "was launched with extent 4 before",
    ),
    ("C[0] = «[C[0] for n2 in 5]»", "'int' object is not iterable"),
    ("C[0] = C[0] + «(lambda: 1 // 0)()»", "integer division or modulo by zero"),
    ("C[0] = «helper(0)»", "no zero here"),
    ("D[0] = «C[0] in [1, 2]»", "as in `x == 1 or x == 2`"),
    ("D[0] = «3 not in [n]»", "as in `x == 1 or x == 2`"),
    ("C[0] = «max(C[1], 3)»", "use T.max(x, y)"),
    ("C[0] = «abs(n)»", "use T.abs(x)"),
    ("C[0] = sum(«range(n)»)", "`for i in range(...):`"),
    ("C[0] = C[1] + «C[1] // 0» + C[2] + 1", "division by the constant zero"),
    ("C[0] = «C[1] + 2 + a» + C[2] + 1", "takes no arithmetic"),
    ("«a[0]» = 1", "T.match_buffer"),
    ("for «C[0]» in range(4):\n    pass", "only names can be bound here"),
    ("«x = T.serial(4)»", "a loop is written `for i in ...:`"),
    ('«with T.block("b", no_realize=True)»:\n    T.where(n < 3)', "takes no T.where and its axes no values"),
    (
        'with T.block("b"):\n    with T.init():\n        with «T.init()»:\n            C[0] = 0',
        "the block has an init already",
    ),
    ("with «T.block(3)»:\n    pass", "the name of a block is a text, not an int"),
    ('with T.block("b"):\n    «T.where(n)»', "T.where takes a bool, not int32"),
    ('with T.block("b"):\n    «T.reads(C[0:4:2])»', "takes regions without gaps"),
    ('with T.block("b"):\n    «T.writes(3)»', "takes regions such as A[i, 0:4], not an int"),
    ('with T.block("b"):\n    «T.block_attr({1: 2})»', "the keys of T.block_attr are texts, not 1"),
    (
        'for i, j in T.grid(4, 4):\n    with T.block("b"):\n        vi, vj = «T.axis.remap("S", [i, j])»',
        "names 1 axes but gets 2 loop variables",
    ),
    ('with T.block("b"):\n    v = «T.axis.spatial((1, 2, 3), 0)»', "an extent or a pair (begin, end)"),
    ('with T.block("b"):\n    v = «T.axis.spatial(1.5, 0)»', "integers, not float32"),
    ('with T.block("b"):\n    v = «T.axis.spatial(4)»', "the axis needs a value"),
    ('X = «T.Buffer((4,), "float32", "x")»', "the data of a buffer is a pointer variable, not a str"),
    ("X = «T.match_buffer(n, (4,))»", "only a handle stands for a buffer"),
    ("X = «T.match_buffer(3, (4,))»", "takes a parameter or a region of a buffer, not an int"),
    ('X = «T.allocate([1.5], "float32")»', "the extents of an allocation are integers, not float32"),
    ("X = «T.alloc_buffer((E[0],))»", "a dimension of the buffer is an integer, not float32"),
    ("X = «T.alloc_buffer((-4,))»", "it cannot be negative"),
    ('b = T.meta_var(T.block("b"))\nwith b:\n    C[0] = 1\nwith «b»:\n    C[1] = 1', "this block was opened before"),
    ('t = «T.launch_thread("threadIdx.x", 1.5)»', "a number of threads is an integer, not float32"),
    ("with «T.launch_thread(n, 4)»:\n    pass", "n is no thread variable"),
    ("t = «T.launch_thread(n, 4)»", "n is no thread variable"),
    ('t = «T.launch_thread("blockidx.y", 4)»', "there is no thread 'blockidx.y'; did you mean 'blockIdx"),
    ('t = «T.env_thread("gpu")»', "there is no thread 'gpu'; threads are threadIdx.x, "),
    ('for i in «T.thread_binding(4, thread="threadIdx")»:\n    pass', "did you mean 'threadIdx.x', 'threadIdx.y' or"),
    ('for i in «T.thread_binding(4, "threadIdx.q")»:\n    pass', "there is no thread 'threadIdx.q'; did you mean"),
    ('T.evaluate(«T.iter_var(n, T.Range(0, 8), "ThreadIndex", "threadIdy.x")»)', "there is no thread 'threadIdy.x'"),
    ("«C[True]» = 1", "subscript 0 of C is True; subscripts are integers, so write 1"),
    ("«C[D[0]]» = 1", 'subscript 0 of C is bool; subscripts are integers; T.Cast("int32", x) makes one of a bool'),
    ("C[0] = «C[n > 2]»", "subscript 0 of C is bool"),
    ("«C[n > 2:4]» = 1", "subscript 0 of C is bool"),
    ("E[0] = «T.exp(A)»", "a Buffer cannot be used as a scalar value; name an element of it, as in A[i, j]"),
    ("E[0] = «E»", "name an element of it, as in E[i]"),
    ("E[0] = «T.int32»", "a type cannot be used as a scalar value; T.int32(x) is a value of that type"),
    ("«with T.If(n > 0)»:\n    pass", "T.If has no T.Then"),
    (
        "with T.If(n > 0):\n    with T.Then():\n        C[0] = 1\n    with «T.Then()»:\n        C[0] = 2",
        "T.If has a T.Then already",
    ),
    ("E[0] = «T.ceil(a)»", "ceil takes numbers, not handle"),
    ("C[0] = [1 for «C[0]» in [1]][0]", "a comprehension binds plain names"),
    ("x = «*C»", "`*` stands before an argument or an element of a list"),
    ("for i in «range(E[0])»:\n    pass", "the bounds of a loop are integers, not float32"),
    ("for i in «range(0, E[0])»:\n    pass", "the bounds of a loop are integers, not float32"),
    ("for i in «range(A.shape)»:\n    pass", "a bound of a loop is one integer, not a tuple; T.grid(*extents)"),
    ("for i in «T.thread_binding(4)»:\n    pass", "T.thread_binding needs a thread"),
    ("for i in «T.thread_binding(4, thread=3)»:\n    pass", "a text such as 'threadIdx.x', not 3"),
    ("for i in «T.grid()»:\n    pass", "T.grid takes at least one extent"),
    ("«C[0]»: T.int32 = 3", "only a name can be annotated"),
    ("«C.shape[0]» = 1", "only elements of buffers can be assigned"),
    ('assert «None», "x"', "an assertion takes a bool, not None"),
    ("while n > 0:\n    pass\nelse:\n    «pass»", "a loop has no `else`"),
    ('while «"x"»:\n    pass', "a condition is a bool, not a str"),
    ('T.evaluate(«C.access_ptr("x")»)', "unknown access mask 'x'"),
    ("«A[T.ramp(0, 1, 2), 0]» = 1.0", "subscript 0 of A is a vector; only the last one may be"),
    ("«C[::0]» = 1", "the step of a slice of C is 0"),
    ("E[0:2] = «T.Select(D[0:3], E[0:2], E[2:4])»", "another number of lanes than its branches"),
    ("x = T.int32()\nE[0] = «T.Let(E[0], where={x: 1.5})»", "1.5 is no integer"),
    ("@T.prim_func\n«def g»():\n    pass", "is defined inside another kernel"),
    ("«match n:\n    case 1:\n        pass»", "`match` is no part of the kernel language"),
    ("«class X:\n    pass»", "a class is no part of the kernel language"),
    ("C[0] = («yield 3»)", "`yield` is no part of the kernel language"),
    ("E[0] = «E[0] @ E[1]»", "write the loops of the product"),
    ("I = «T.int8(300)»", "300 does not fit in int8"),
    ("B[0] = «2**70»", "does not fit in B"),
    ("E[0] = «T.pow(n, 2)»", "pow takes floats, not int32"),
    ("C[0] = «~E[0]»", "bitwise_not takes integers, not float32"),
    ("if «C == 3»:\n    pass", "try: compute with elements, as in C[i], in loops over their indices"),
    ("while «C != n»:\n    pass", "`!=` does not work on a Buffer and a Var"),
    ("if «not C»:\n    pass", "`not` does not work on a Buffer"),
    ("if «C and n > 0»:\n    pass", "`and` does not work on a Buffer"),
    ("if «n > 0 and C»:\n    pass", "a Buffer cannot be used as a scalar value"),
    ("E[0] = «A + 1»", "as in A[i, j], in loops over their indices"),
    ("C[0] = «len(C)»", "use C.shape[0]"),
    ("for i, x in «enumerate(C)»:\n    pass", "loop over the indices of C"),
    ("C[0] = «sum(C)»", "write the loops of the sum"),
    ("'ä'; C[0] = «nö»", "`nö` is not defined"),
]


@pytest.mark.parametrize(("body", "core"), BODIES, ids=[b.replace("\n", "; ")[:50] for b, _ in BODIES])
def test_a_mistake_is_reported_at_its_place(body: str, core: str) -> None:
    def helper(value: int) -> int:
        raise ValueError("no zero here")

    error = error_of(HEADER + textwrap.indent(body, "    ") + "\n", helper=helper)
    assert core in str(error)


FUNCTIONS = [
    ("@T.prim_func\ndef f(«A»):\n    pass", "a parameter needs a type"),
    ("@T.prim_func\ndef f(A: «3»):\n    pass", "is no type of a parameter"),
    ("@T.prim_func\ndef f(A: T.Buffer((4,), «flaot32»)):\n    pass", "`flaot32` is not defined"),
    ('@T.prim_func\ndef f(A: «T.Buffer((4,), "flaot32")»):\n    pass', "unknown data type 'flaot32'"),
    ("@T.prim_func\ndef f(*, «n: T.int32»):\n    pass", "parameter n is not an ordinary one"),
    ("@T.prim_func\ndef f() -> «3»:\n    pass", "a type is written as T.int32"),
    ("@T.prim_func(«privat=True»)\ndef f():\n    pass", "did you mean `private`"),
    ("@T.prim_func(private=«x»)\ndef f():\n    pass", "private is written as True or False"),
    (
        '@T.prim_func(private=True)\ndef f():\n    «T.func_attr({"global_symbol": "f"})»',
        "a private function has no global symbol",
    ),
    ("@«T.prim_fun»\ndef f():\n    pass", "did you mean `prim_func`"),
    (
        "@T.prim_func\ndef f():\n    pass\n«x = 1»",
        "one function or class, after `name = value` lines, and nothing else",
    ),
    ("x = «y»\n@T.prim_func\ndef f():\n    pass", "`y` is not defined"),
    ("@T.prim_func\ndef f():\n    C[0] = «)»", "this is no Python"),
    ("v = T.int32()\n@T.prim_func\ndef f(a: v, b: «v»):\n    pass", "has the same variable as another one"),
    (
        "@T.prim_func\ndef f():\n    pass\n@T.prim_func\n«def g»():\n    pass",
        "one function or class, not 2",
    ),
]


@pytest.mark.parametrize(("text", "core"), FUNCTIONS, ids=[t.replace("\n", "; ")[:50] for t, _ in FUNCTIONS])
def test_a_mistake_in_a_header_is_reported_at_its_place(text: str, core: str) -> None:
    assert core in str(error_of(text))


MODULES = [
    (
        "    @T.prim_func\n    def f(A: T.Buffer((4,))):\n        «M.nope»(A.data)",
        "the module has no function `nope`",
    ),
    ("    @T.prim_func\n    def f(A: T.Buffer((4,))):\n        «M.f(A)»", "argument 0 of f is a Buffer"),
    (
        "    @T.prim_func\n    def f():\n        pass\n    @T.prim_func\n    «def f»():\n        pass",
        "the function `f` is defined twice",
    ),
    ("    «def f»():\n        pass", "has no decorator"),
    ("    @T.prim_func\n    def f():\n        «f»()", "write `M.f`"),
    ('    I.module_attrs({"k": 1})\n    «I.module_attrs({"k": 2})»', "set twice"),
    ("    «for i in range(4):\n        pass»", "a module holds functions"),
    ("    @T.prim_func\n    def f(«A»):\n        pass", "a parameter needs a type"),
    ('    I.module_global_infos({"k": []})\n    «I.module_global_infos({"k": []})»', "set twice"),
]


@pytest.mark.parametrize(("body", "core"), MODULES, ids=[t.replace("\n", "; ")[:50] for t, _ in MODULES])
def test_a_mistake_in_a_module_is_reported_at_its_place(body: str, core: str) -> None:
    assert core in str(error_of("@I.ir_module\nclass M:\n" + body))


def test_the_report_shows_line_carets_and_hint() -> None:
    error = error_of(HEADER + "    C[0] = C[0] + «widht»\n", width=3)
    assert str(error).splitlines()[1:] == [
        f"  --> {error.file}:11:19",
        "   |",
        "11 |     C[0] = C[0] + widht",
        "   |                   ^^^^^",
        "  try: did you mean `width`?",
    ]


def test_an_error_in_a_helper_names_the_helper() -> None:
    def helper(value: int) -> int:
        return [][value]

    error = error_of(HEADER + "    C[0] = «helper(1)»\n", helper=helper)
    assert "raised in helper at" in str(error)
    assert error.__cause__ is None and error.__suppress_context__


def test_the_traceback_holds_only_the_entry_point_unless_more_is_asked_for() -> None:
    def frames(error: BaseException) -> int:
        tb, count = error.__traceback__, 0
        while tb is not None:
            tb, count = tb.tb_next, count + 1
        return count

    text = HEADER + "    C[0] = 1 // 0\n"
    with pytest.raises(ScriptError) as short:
        from_source(text)
    with configure(full_traceback=True), pytest.raises(ScriptError) as full:
        from_source(text)
    assert frames(short.value) == 2 < frames(full.value)
    assert isinstance(full.value.__cause__, ZeroDivisionError) and short.value.__cause__ is None


_KERNELS = [
    "@T.prim_func\ndef f():\n    widht",
    "@T.prim_func(private=True)\ndef f():\n    widht",
    "@I.ir_module\nclass M:\n    @T.prim_func\n    def f():\n        widht",
    "@I.ir_module(check_well_formed=False)\nclass M:\n    @T.prim_func\n    def f():\n        widht",
    "from_source('def f(A): pass')",
]


@pytest.mark.parametrize("kernel", _KERNELS)
def test_a_traceback_shows_one_frame_of_ours(kernel: str) -> None:
    names = {"T": T, "I": I, "from_source": from_source, "__name__": "__main__"}
    with pytest.raises(ScriptError) as short:
        exec(kernel, dict(names))
    package = Path(tscript.__file__).parent
    ours = [f for f in traceback.extract_tb(short.value.__traceback__) if package in Path(f.filename).parents]
    assert len(ours) == 1, ours
    with configure(full_traceback=True), pytest.raises(ScriptError) as full:
        exec(kernel, dict(names))
    assert len(traceback.extract_tb(full.value.__traceback__)) > len(traceback.extract_tb(short.value.__traceback__))


@pytest.mark.parametrize("kernel", _KERNELS)
def test_ipython_is_told_to_show_the_report_alone(kernel: str) -> None:
    names = {"T": T, "I": I, "from_source": from_source, "__name__": "__main__"}
    with pytest.raises(ScriptError) as short:
        exec(kernel, dict(names))
    assert short.value._render_traceback_() == f"ScriptError: {short.value}".split("\n")
    with configure(full_traceback=True), pytest.raises(ScriptError) as full:
        exec(kernel, dict(names))
    assert not hasattr(full.value, "_render_traceback_")


def test_a_rule_of_the_ir_that_is_broken_is_reported_unless_the_check_is_off() -> None:
    body = (
        '    for i in range(4):\n        with T.block("b"):\n            v = T.axis.spatial(4, i)\n'
        "            T.reads()\n            T.writes(C[v])\n            C[v] = i\n"
    )
    with pytest.raises(ScriptError, match="not well-formed") as caught:
        from_source(HEADER + body)
    assert caught.value.line is not None
    from_source(HEADER + body, check_well_formed=False)
    from_source(HEADER.replace("prim_func", "prim_func(check_well_formed=False)") + body)


def test_an_unknown_size_in_the_type_of_a_parameter_is_explained() -> None:
    error = error_of('@T.prim_func\ndef f(A: T.Buffer((«size»,), "int8")):\n    pass')
    assert error.reason == "`size` is not defined"
    assert error.hint is not None
    assert "`size = T.int32()` and `A = T.match_buffer(a, shape, dtype)`" in error.hint
    assert error_of("@T.prim_func\ndef f(A: T.Buffer((4,))):\n    A[0] = «size»").hint is None


def test_a_kernel_with_self_is_told_that_it_is_no_method() -> None:
    error = error_of("@T.prim_func\ndef f(«self», n: T.int32):\n    pass")
    assert error.reason == "a kernel is no method: it gets no `self`"
    assert error.hint is not None and "leave out `self`" in error.hint


def test_a_shuffle_takes_slices_as_vectors() -> None:
    func = from_source(HEADER + "    C[0:4] = T.Shuffle([C[0:2], C[2:4]], [3, 2, 1, 0])")
    assert "T.Shuffle([C[0:2], C[2:4]], [3, 2, 1, 0])" in func.script()
