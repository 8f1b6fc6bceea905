"""What can be built, in which forms, for which targets, and under which names."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import tscript
from tscript.driver import Executable, build, lower
from tscript.ir.function import IRModule
from tscript.lower.pipeline import CPU_PIPELINE
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import BuildError, ExecutionError
from tscript.target import Target


@T.prim_func
def add_one(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.func_attr({"global_symbol": "add_one", "tir.noalias": True})
    for i in range(64):
        B[i] = A[i] + T.float32(1)


@T.prim_func
def double(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    T.func_attr({"global_symbol": "double", "tir.noalias": True})
    for i in range(64):
        B[i] = A[i] * T.float32(2)


@T.prim_func(private=True)
def nameless(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = -A[i]


@I.ir_module
class Both:
    @T.prim_func(private=True)
    def scale(x: T.float32) -> T.float32:
        return x * T.float32(2)

    @T.prim_func
    def first(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(64):
            B[i] = Both.scale(A[i])

    @T.prim_func
    def second(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(64):
            B[i] = Both.scale(Both.scale(A[i]))


class Scheduled:
    """What has a module."""

    mod = Both


def result(function: object) -> float:
    """What a kernel makes of threes."""
    a, b = np.full(64, 3, np.float32), np.zeros(64, np.float32)
    function(a, b)
    assert (b == b[0]).all()
    return float(b[0])


def test_every_form_of_a_program_builds() -> None:
    assert result(build(add_one)) == 4
    assert result(build(IRModule({"add_one": add_one}))) == 4
    assert result(build([add_one, double])["double"]) == 6
    assert build((add_one, Both)).names == ("add_one", "first", "second")
    lib = build(Scheduled())
    assert lib.names == ("first", "second") and result(lib["second"]) == 12
    assert result(build({"llvm": add_one})) == 4
    assert result(build([nameless.with_attr("global_symbol", "negate"), add_one])["negate"]) == -3


def test_every_form_of_a_target_builds() -> None:
    for target in ("llvm", Target("llvm"), {"kind": "llvm", "opt-level": 1}, '{"kind": "llvm"}', None):
        assert result(build(add_one, target)) == result(build(add_one, target=target)) == 4
    assert result(build(add_one, Target("llvm", host="llvm"))) == 4
    assert result(build(add_one, "llvm", target_host="llvm -num-cores=2")) == 4
    with pytest.raises(TypeError, match="a target is text, a mapping or another target, not int"):
        build(add_one, 3)
    with pytest.raises(TypeError, match="a list stands where the target is expected.*te.create_prim_func"):
        build(add_one, [1, 2])


def test_the_name_of_a_single_function_can_be_given() -> None:
    assert build(nameless).names == ("main",) and build(nameless, name="negate").names == ("negate",)
    lib = build(add_one, name="plus")
    assert lib.names == ("plus",) and result(lib["plus"]) == 4
    assert [v.name_hint for v in lower(add_one, name="plus").functions] == ["plus"]
    for program in (Both, [add_one], {"llvm": add_one}):
        with pytest.raises(ValueError, match="name='plus' names a single function"):
            build(program, name="plus")


def test_names_that_clash_or_lack_are_reported() -> None:
    with pytest.raises(ValueError, match="function 2 of the list has no name; give it one with func.with_attr"):
        build([add_one, nameless])
    with pytest.raises(ValueError, match="two functions are called 'add_one', in 1 and in 2; rename one"):
        build([add_one, add_one])
    with pytest.raises(ValueError, match="'add_one', in the part for 'llvm -keys=cpu' and in the part for 'llvm .*opt"):
        build({"llvm": add_one, "llvm -opt-level=3": add_one})
    for empty in ([], {}):
        with pytest.raises(ValueError, match="there is no function to build"):
            build(empty)
    for wrong in ("add_one", [add_one, 3], {"llvm": 3}):
        with pytest.raises(TypeError, match="cannot be built; pass a function"):
            build(wrong)
    with pytest.raises(ValueError, match="no target= beside it"):
        build({"llvm": add_one}, "llvm")


def test_entry_functions() -> None:
    assert build(add_one).entry_name == "add_one"
    assert build([add_one.with_attr("global_symbol", "main"), double]).entry_name == "main"
    marked = double.with_attr("tir.is_entry_func", True)
    assert build([add_one.with_attr("global_symbol", "main"), marked]).entry_name == "double"
    assert result(build([add_one, marked])) == 6
    with pytest.raises(AttributeError, match="no single entry function; choose one of add_one, double"):
        build([add_one, double])(1)


def test_the_target_in_force_counts_where_none_is_given() -> None:
    with Target("cuda"):
        with pytest.raises(BuildError, match="no code generator for target 'cuda' yet"):
            build(add_one)
        assert result(build(add_one, "llvm")) == 4
        with Target("llvm -opt-level=0"):
            assert result(build(add_one)) == 4


@pytest.mark.parametrize("target", ["cuda", "nvidia/geforce-rtx-4090", "rocm", "vulkan", "metal", "opencl", "webgpu"])
def test_targets_without_a_code_generator_are_refused_with_advice(target: str) -> None:
    kind = Target(target).kind.name
    with pytest.raises(BuildError) as caught:
        build([add_one, double], Target(target, host="llvm"))
    text = str(caught.value)
    assert text.startswith(f"there is no code generator for target '{kind}' yet, which add_one, double would need")
    assert '\n  try: target="llvm", where threads of a block run one after another, or tscript.interp.run' in text


def test_only_the_functions_that_need_another_generator_are_named() -> None:
    many = [add_one.with_attr({"global_symbol": f"f{i}", "target": Target("cuda")}) for i in range(6)]
    with pytest.raises(BuildError, match=r"'cuda' yet, which f0, f1, f2, f3 and 2 more would need"):
        build([double, *many], "llvm")
    with pytest.raises(BuildError, match="for target 'c' yet, which the host would need"):
        build(add_one, "llvm", target_host="c")
    with pytest.raises(BuildError, match="'cuda' yet, which double would need"):
        build({"llvm": add_one, "cuda": double})
    with pytest.raises(ValueError, match="the host of a target is a CPU"):
        build(add_one, "llvm", target_host="cuda")


def test_pipelines() -> None:
    assert result(build(add_one, pipeline=None)) == result(build(add_one, pipeline=CPU_PIPELINE)) == 4
    with pytest.raises(ValueError, match="unknown pipeline 'fast'; choose 'default', or pass a list of passes"):
        build(add_one, pipeline="fast")


def test_compile_and_the_build_of_tir_are_the_same_builder(tmp_path: Path) -> None:
    exe = tscript.compile(add_one, "llvm", tir_pipeline="default")
    assert isinstance(exe, Executable) and result(exe) == result(exe["add_one"]) == result(exe.jit()) == 4
    exe.export_library(tmp_path / "add_one.lib")
    assert result(tscript.load_module(tmp_path / "add_one.lib")) == 4
    assert exe.mod is exe.jit() and repr(exe) == "Executable(Module(llvm: add_one))"
    assert tscript.tir.build is tscript.build and result(tscript.tir.build(Both, target="llvm")["first"]) == 6
    from tscript.tir import build as named

    assert named is build


def test_a_build_for_two_targets_is_exported_whole(tmp_path: Path) -> None:
    build({"llvm": add_one, "llvm -mcpu=generic": double}).export_library(tmp_path / "both.lib")
    lib = tscript.load_module(tmp_path / "both.lib")
    assert result(lib["add_one"]) == 4 and result(lib["double"]) == 6


# -- what the target says about the code ----------------------------------------------------------

x86_only = pytest.mark.skipif(
    "ymm" not in build(add_one, "llvm").get_source("asm"), reason="the registers looked for are those of AVX"
)


def registers(lib: object, function: str | None = None) -> set[str]:
    """Kinds of vector registers in the assembly, or in that of one kernel."""
    text = lib.get_source("asm")
    if function is not None:
        start = text.index(f"{function}.entry:\n")
        text = text[start : text.index(".Lfunc_end", start)]
    return {r for r in ("xmm", "ymm", "zmm") if f"%{r}" in text}


@x86_only
@pytest.mark.parametrize(
    ("options", "has", "lacks"),
    [
        ("-mcpu=x86-64", "xmm", "ymm zmm"),
        ("-mcpu=haswell", "ymm", "zmm"),
        ("-mcpu=x86-64 -mattr=+avx2", "ymm", "zmm"),
        ("-mcpu=haswell -mattr=-avx", "xmm", "ymm zmm"),
        ("-mcpu=znver4", "zmm", ""),
        ("-mcpu=skylake-avx512 -mattr=-prefer-256-bit", "zmm", ""),
        ("-mcpu=skylake-avx512 -vector-width=512", "zmm", ""),
        ("-mcpu=skylake-avx512 -vector-width=256", "ymm", "zmm"),
        ("-mcpu=skylake-avx512 -vector-width=128", "xmm", "ymm zmm"),
        ("-opt-level=0", "xmm", "ymm zmm"),
    ],
)
def test_cpu_features_and_level_decide_about_the_registers(options: str, has: str, lacks: str) -> None:
    found = registers(build(add_one, f"llvm {options}"))
    assert set(has.split()) <= found and not set(lacks.split()) & found


@x86_only
def test_each_function_of_a_build_gets_the_code_of_its_own_target() -> None:
    old, new = "llvm -mcpu=x86-64", "llvm -mcpu=haswell"
    for lib in (
        build({old: add_one, new: double}),
        build({new: double, old: add_one}),
        build([add_one, double.with_attr("target", Target(new))], old),
        build([add_one.with_attr("target", Target(old)), double], new),
        build([add_one.with_attr("target", old), double.with_attr("target", {"kind": "llvm", "mcpu": "haswell"})]),
    ):
        assert set(lib.names) == {"add_one", "double"} and lib.imported_modules == []
        assert registers(lib, "add_one") == {"xmm"} and registers(lib, "double") == {"ymm"}
        assert result(lib["add_one"]) == 4 and result(lib["double"]) == 6
    assert "zmm" not in build({old: add_one, new: double}).get_source("asm")


def test_functions_for_other_targets_call_each_other() -> None:
    @I.ir_module
    class Mixed:
        @T.prim_func
        def inner(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            for i in range(64):
                B[i] = A[i] + T.float32(1)

        @T.prim_func
        def outer(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            T.func_attr({"target": T.target("llvm -mcpu=generic")})
            Mixed.inner(A.data, B.data)
            for i in range(64):
                B[i] = B[i] * T.float32(10)

    lib = build(Mixed, "llvm")
    assert result(lib["outer"]) == 40 and result(lib["inner"]) == 4


def test_levels_that_differ_in_one_build_are_refused() -> None:
    with pytest.raises(BuildError, match="share the optimisation level; give all targets one -opt-level"):
        build({"llvm -opt-level=0": add_one, "llvm -opt-level=3": double})
    assert build({"llvm -opt-level=1": add_one, "llvm -opt-level=1 -num-cores=2": double}).names == (
        "add_one",
        "double",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-mcpu=znver55", "LLVM knows no CPU 'znver55'.*try: znver5"),
        ("-mcpu=qqqqqqqq", "LLVM knows no CPU 'qqqqqqqq'.*try: one of "),
        ("-mattr=+avx22", "LLVM knows no CPU feature 'avx22'.*try: avx2"),
        ("-mtriple=sparc-linux-gnu", "is for sparc machines, and this one is .*try: build it on such a machine"),
    ],
)
@x86_only
def test_cpus_that_llvm_does_not_know_are_refused(options: str, message: str) -> None:
    with pytest.raises(BuildError, match=f"(?s){message}"):
        build(add_one, f"llvm {options}")


@x86_only
def test_uncommon_names_that_llvm_knows_are_taken() -> None:
    assert registers(build(add_one, "llvm -mcpu=bdver4 -mattr=+fast-gather")) <= {"xmm", "ymm"}
    assert result(build(add_one, "llvm -mcpu=nocona -mtriple=x86_64-pc-linux-gnu")) == 4


@x86_only
def test_code_that_this_cpu_lacks_features_for_can_be_read_but_not_called() -> None:
    here = Target("llvm").features
    feature = next(f for f in ("amx-fp16", "avx512fp16", "avx512f", "sse4a", "fma4", "xop") if f not in here)
    lib = build(add_one, f"llvm -mcpu=x86-64 -mattr=+{feature}")
    assert "ret" in lib.get_source("asm")
    for call in (lib, lib["add_one"], lambda a, b: lib.time_evaluator("add_one")(a, b)):
        with pytest.raises(
            ExecutionError, match=f"add_one was built for a CPU with .*{feature}.*which this machine lacks"
        ):
            result(call)


def test_options_that_change_nothing_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="options of the target change nothing yet: -mabi, -mfloat-abi"):
        assert result(build(add_one, "llvm -mfloat-abi=hard -mabi=lp64d")) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(add_one, "llvm -num-cores=4 -device=mine -model=this -libs=mkl -fast-math=0 -jit=mcjit")


def test_text_of_a_function_with_its_own_target_builds_after_reading_back() -> None:
    func = double.with_attr("target", Target("llvm -mcpu=generic -num-cores=4"))
    again = tscript.script.from_source(func.script())
    assert again.attrs["target"] == func.attrs["target"] and result(build(again)) == 6
