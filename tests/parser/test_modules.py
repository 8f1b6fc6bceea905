"""Modules: classes of kernels."""

import pytest

from tscript.ir.expr import Call, GlobalVar
from tscript.ir.function import IRModule
from tscript.ir.structural import structural_equal
from tscript.script import from_source
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import ScriptError

SIZE = 16


@T.prim_func
def existing(A: T.Buffer((4,), "float32")):
    A[0] = 1.0


def test_functions_call_each_other_by_the_name_of_the_class_also_forward() -> None:
    @I.ir_module
    class M:
        I.module_attrs({"k": 1})

        @T.prim_func
        def main(A: T.Buffer((SIZE,), "float32"), C: T.Buffer((4,), "int32")):
            M.nothing(A.data, 1)
            C[0] = M.aux(A.data, C[1])

        @T.prim_func(private=True)
        def aux(A: T.handle("float32"), n: T.int32) -> T.int32:
            return n + 1

        @T.prim_func(private=True)
        def nothing(A: T.handle("float32"), n: T.int32):
            T.evaluate(n)

    assert isinstance(M, IRModule)
    assert [v.name_hint for v in M.functions] == ["main", "aux", "nothing"]
    call, store = M["main"].body.seq
    assert isinstance(call.value, Call) and call.value.op is M.get_global_var("nothing")
    assert (str(call.value.dtype), str(store.value.dtype)) == ("void", "int32")
    assert "global_symbol" not in M["aux"].attrs and M["main"].attrs["global_symbol"] == "main"
    assert int(M.attrs["k"]) == 1
    assert structural_equal(from_source(M.script()), M)


def test_existing_functions_and_values_can_be_named_in_the_class() -> None:
    @I.ir_module
    class M:
        width = 4
        existing = existing

        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            for i in range(width):  # pyright: ignore[reportUndefinedVariable]
                A[i] = 0.0
            M.existing(A.data)

    assert M["existing"] is existing and "range(4)" in M.script()


def test_a_class_in_a_function_sees_the_names_around_it() -> None:
    def make(n: int) -> IRModule:
        dtype = "int8"

        @I.ir_module(check_well_formed=True)
        class M:
            """Text."""

            @T.prim_func
            def main(A: T.Buffer((n,), dtype)):
                for i in range(n):
                    A[i] = T.Cast(dtype, i)

        return M

    assert 'A: T.Buffer((5,), "int8")' in make(5).script()


def test_macros_may_stand_in_the_class() -> None:
    @I.ir_module
    class M:
        @T.macro
        def put(C, i):
            C[i] = 5

        @T.prim_func
        def main(C: T.Buffer((4,), "int32")):
            put(C, 1)  # pyright: ignore[reportUndefinedVariable]

    assert "C[1] = 5" in M.script() and len(M.functions) == 1


def test_empty_modules_are_modules() -> None:
    @I.ir_module
    class Empty:
        pass

    assert len(Empty) == 0

    @I.ir_module
    class Other:
        I.module_global_infos({"a": [1]})
        I.module_attrs({"k": 1})
        I.module_attrs({"k": 2}, allow_overwrite=True)

    assert int(Other.attrs["k"]) == 2 and "a" in Other.global_infos


def test_a_kernel_in_a_plain_class_is_an_attribute_of_it() -> None:
    class Kernels:
        @T.prim_func
        def f(A: T.Buffer((4,), "float32")):
            A[0] = 1.0

        g = staticmethod(len)

    assert "A[0] = T.float32(1.0)" in Kernels.f.script()


def test_a_class_is_found_among_others_of_its_name() -> None:
    def first() -> IRModule:
        @I.ir_module
        class M:
            @T.prim_func
            def main(C: T.Buffer((4,), "int32")):
                C[0] = 1

        return M

    def second() -> IRModule:
        @I.ir_module
        class M:
            @T.prim_func
            def main(C: T.Buffer((4,), "int32")):
                C[0] = 2

        return M

    assert "C[0] = 1" in first().script() and "C[0] = 2" in second().script()


def test_global_symbol_and_attributes_can_be_given() -> None:
    func = from_source("""
        @T.prim_func
        def f():
            T.func_attr({"global_symbol": "g", "tir.noalias": True, "k": 3, "f": 1.5, "l": [1, {"a": "b"}]})
            T.func_attr({"more": None})
    """)
    assert func.attrs["global_symbol"] == "g" and str(func.attrs["tir.noalias"].dtype) == "bool"
    assert str(func.attrs["f"].dtype) == "float32" and func.attrs["l"][1]["a"] == "b"
    private = from_source("@T.prim_func(private=True)\ndef f():\n    pass")
    assert dict(private.attrs) == {}


def test_attributes_set_before_can_be_read_in_the_class() -> None:
    @I.ir_module
    class M:
        I.module_set_attr("k", 1)
        k = I.module_get_attr("k")
        I.module_attrs({**I.module_get_attrs(), "l": k}, allow_overwrite=True)

    assert {name: int(value) for name, value in M.attrs.items()} == {"k": 1, "l": 1}


def test_a_text_of_a_module_reads_as_the_class_does() -> None:
    text = """
    from tvm.script import ir as I
    # a comment
    @I.ir_module(check_well_formed=False)
    class M:
        @T.prim_func(check_well_formed=False)
        def main(C: T.Buffer((4,), "int32")):
            C[0] = 1
    """
    module = from_source(text)
    assert isinstance(module, IRModule) and isinstance(next(iter(module.functions)), GlobalVar)
    assert structural_equal(from_source(module.script()), module)


def test_an_unknown_name_beside_the_name_of_the_class_is_reported_as_such() -> None:
    with pytest.raises(ScriptError, match="`other` is not defined"):
        from_source('@I.ir_module\nclass M:\n    I.module_attrs({"k": other})\n')
