"""`Annotated[T.Buffer, ...]`: the form of a parameter's type that a checker and an editor know."""

import typing
from typing import Annotated

import pytest

from tscript.ir import assert_structural_equal
from tscript.script import from_source
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import ScriptError

SIZE = 16
Tile = Annotated[T.Buffer, (SIZE, 4), "float16"]
Quoted = Annotated["T.Buffer", (SIZE, 4), "float16"]
Named = typing.TypeAliasType("Named", Tile) if hasattr(typing, "TypeAliasType") else Tile


def test_it_means_the_call() -> None:
    @T.prim_func
    def f(
        A: Annotated[T.Buffer, (SIZE, 8), "int8"],
        B: Annotated[T.Buffer, (4,)],
        C: Annotated[T.Buffer, T.Buffer((4,), "int8", strides=("s",), align=8)],
        p: Annotated[T.handle, "uint8", "shared"],
        n: Annotated[T.int32, T.int32()],
        D: typing.Annotated[T.Buffer, 3],
    ) -> Annotated[T.int32, T.int32()]:
        x: Annotated[T.int8, T.int8()] = A[0, n]
        C[0] = x
        B[0] = D[0]
        return n

    @T.prim_func
    def g(
        A: T.Buffer((SIZE, 8), "int8"),
        B: T.Buffer((4,)),
        C: T.Buffer((4,), "int8", strides=("s",), align=8),
        p: T.handle("uint8", "shared"),
        n: T.int32,
        D: T.Buffer(3),
    ) -> T.int32:
        x: T.int8 = A[0, n]
        C[0] = x
        B[0] = D[0]
        return n

    assert_structural_equal(f.with_attr("global_symbol", "g"), g)
    assert f.script().replace("def f", "def g") == g.script()
    assert "Annotated" not in f.script()


def test_parameters_share_an_alias_and_get_buffers_of_their_own() -> None:
    @T.prim_func
    def f(A: Tile, B: Tile, C: Quoted, D: Named):
        A[0, 0] = B[0, 0] + C[0, 0] + D[0, 0]

    buffers = list(f.buffer_map.values())
    assert [b.name for b in buffers] == ["A", "B", "C", "D"]
    assert len({id(b) for b in buffers}) == len({id(b.data) for b in buffers}) == 4


def test_sizes_are_those_of_the_functions_around_it() -> None:
    def outer(m: int):
        def middle(k: int):
            @T.prim_func
            def f(A: Annotated[T.Buffer, (m, k), "int8"], B: "Annotated['T.Buffer', (k, m), 'int8']"):
                A[0, 0] = B[0, 0]

            return f

        return middle(5)

    assert [[int(e) for e in b.shape] for b in outer(3).buffer_map.values()] == [[3, 5], [5, 3]]


def test_earlier_parameters_are_sizes_in_text() -> None:
    head = "from typing import Annotated\nRow = Annotated[T.Buffer, (4,), 'int8']\n@T.prim_func\n"
    f = from_source(head + "def f(n: T.int32, A: Annotated[T.Buffer, (n, 4), 'int8'], B: Row):\n    A[0, 0] = B[0]\n")
    g = from_source("@T.prim_func\ndef f(n: T.int32, A: T.Buffer((n, 4), 'int8'), B: T.Buffer((4,), 'int8')):\n"
                    "    A[0, 0] = B[0]\n")  # fmt: skip
    assert_structural_equal(f, g)
    assert f.script() == g.script()


def test_kernels_of_a_module() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: Tile, B: Annotated[T.Buffer, (SIZE,), "float16"]):
            A[0, 0] = B[0]

    assert [b.name for b in Module["main"].buffer_map.values()] == ["A", "B"]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("Annotated[T.Buffer, 1.5]", "a dimension of the buffer is an integer, not 1.5"),
        ("Annotated[T.Buffer, (4,), 'floot']", "unknown data type 'floot'"),
        ("Annotated[T.Buffer, (4,), 'int8', 0, 0, 0, 0, 0, 0, 0, 0, 0]", "takes 10 positional arguments, not 11"),
        ("Annotated[T.Buffer]", "T.Buffer needs `shape` too"),
        ("Annotated[T.Buffer, T.int32()]", "says T.Buffer, but its detail is a Var of type int32"),
        ("Annotated[T.Buffer, B]", "has the same buffer as another one"),
        ("Annotated[T.handle, T.int32()]", "says T.handle, but its detail is a Var of type int32"),
        ("Annotated[T.handle, 5]", "a data type is written as text"),
        ("Annotated[T.int32, T.int64()]", "says T.int32, but its detail is a Var of type int64"),
        ("Annotated[T.int32, 'how many']", "T.int32 has no details"),
        ("Annotated[int, 3]", "Annotated is for types of kernels, not for the class int"),
        ("'Annotated[T.Buffer, (4'", "the annotation is no Python"),
    ],
)
def test_mistakes_are_told_at_the_annotation(annotation: str, message: str) -> None:
    text = f"@T.prim_func\ndef f(B: T.Buffer((2,), 'int8'), A: {annotation}):\n    T.evaluate(0)\n"
    with pytest.raises(ScriptError) as caught:
        from_source(text)
    assert message in str(caught.value)
    span = caught.value.span
    assert span is not None
    assert (span.line, span.column) == (2, text.splitlines()[1].index(annotation) + 1)
