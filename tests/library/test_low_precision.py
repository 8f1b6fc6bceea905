"""Products of bytes and bfloat16 by VNNI, AVX512-BF16 and AMX: chosen by target, and run natively."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tscript
from tscript import library, te
from tscript.analysis import check
from tscript.ir.semantics import numpy_dtype
from tscript.library.low_precision import choose_instruction, find_low_precision
from tscript.support.errors import BuildError

HERE = tscript.target.Target("llvm").features
TARGETS = {
    "amx": ("llvm", {"amx-tile", "amx-int8", "amx-bf16"}),
    "avx512": ("llvm -mattr=-amx-tile", {"avx512vnni", "avx512bf16"}),
    "avx512bw": ("llvm -mattr=-amx-tile,-avx512vnni,-avx512bf16", {"avx512bw"}),
    "avx2": ("llvm -mcpu=haswell", {"avx2"}),
}
TYPES = [("bfloat16", "bfloat16", "float32"), ("uint8", "int8", "int32"), ("int8", "int8", "int32")]
SHAPES = [(64, 64, 64), (32, 32, 128), (33, 70, 45), (1, 16, 4), (16, 100, 7), (128, 96, 256)]


def product(m, n, k, a_type, b_type, c_type, relu=False):
    a, b = te.placeholder((m, k), a_type, name="A"), te.placeholder((k, n), b_type, name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype(c_type) * b[r, j].astype(c_type), axis=r), name="C")
    if not relu:
        return te.create_prim_func([a, b, c])
    return te.create_prim_func([a, b, te.compute((m, n), lambda i, j: te.max(c[i, j], tscript.tir.const(0, c_type)))])


def arrays(m, n, k, a_type, b_type, c_type):
    rng = np.random.default_rng(m * n + k)

    def values(shape, dtype):
        kind = numpy_dtype(tscript.ir.dtype.DataType(dtype))
        if dtype == "bfloat16":
            return rng.standard_normal(shape).astype(np.float32).astype(kind)
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        return rng.integers(low, high + 1, shape).astype(kind)

    return values((m, k), a_type), values((k, n), b_type), np.zeros((m, n), c_type)


def expected(a, b, c_type):
    wide = np.float64 if c_type == "float32" else np.int64
    return (a.astype(np.float32).astype(wide) @ b.astype(np.float32).astype(wide)).astype(c_type)


def require_equal(got, want, k):
    tolerance = 2e-3 * k**0.5 if got.dtype == np.float32 else 0
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", list(TARGETS))
@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("shape", SHAPES)
def test_results_are_right_natively_and_in_the_interpreter(shape, types, name):
    target, needs = TARGETS[name]
    if not needs <= HERE:
        pytest.skip(f"this CPU lacks {', '.join(sorted(needs - HERE))}")
    func = product(*shape, *types)
    sch = library.schedule(func, target + " -num-cores=2")
    a, b, c = arrays(*shape, *types)
    tscript.build(sch.mod, target)["main"](a, b, c)
    require_equal(c, expected(a, b, types[2]), shape[2])
    if shape[0] <= 33 and name != "avx2":
        d = np.zeros_like(c)
        tscript.interp.run(sch.mod["main"], a, b, d)
        require_equal(d, expected(a, b, types[2]), shape[2])
        assert [f for f in check(sch.mod["main"]) if f.is_proven] == []
    again = tscript.tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    tscript.ir.assert_structural_equal(again.mod, sch.mod)


@pytest.mark.parametrize(
    ("types", "mcpu", "name"),
    [
        (TYPES[0], "sapphirerapids", "amx_32x32_bfloat16_bfloat16_float32_x2"),
        (TYPES[0], "cooperlake", "dot_16x2_avx512_bf16"),
        (TYPES[0], "skylake-avx512", None),
        (TYPES[1], "sapphirerapids", "amx_32x32_uint8_int8_int32_x1"),
        (TYPES[1], "cascadelake", "dot_16x4_vnni"),
        (TYPES[1], "skylake-avx512", "dot_16x4_avx512"),
        (TYPES[2], "cascadelake", None),
        (TYPES[1], "haswell", None),
    ],
)
def test_the_instruction_is_chosen_by_the_target(types, mcpu, name):
    found = find_low_precision(product(64, 64, 64, *types))
    chosen = choose_instruction(found, tscript.target.Target(f"llvm -mcpu={mcpu}"))
    assert (None if chosen is None else chosen.name) == name


def test_few_rows_or_columns_do_not_take_tiles():
    found = find_low_precision(product(2, 64, 64, *TYPES[1]))
    assert choose_instruction(found, tscript.target.Target("llvm -mcpu=sapphirerapids")).name == "dot_16x4_vnni"


@pytest.mark.parametrize("shape", [(64, 64, 64), (33, 70, 45)])
def test_what_comes_after_is_done_to_each_block(shape):
    for name in ("amx", "avx512"):
        target, needs = TARGETS[name]
        if not needs <= HERE:
            pytest.skip(f"this CPU lacks {', '.join(sorted(needs - HERE))}")
        sch = library.schedule(product(*shape, *TYPES[1], relu=True), target + " -num-cores=2")
        a, b, c = arrays(*shape, *TYPES[1])
        tscript.build(sch.mod, target)["main"](a, b, c)
        require_equal(c, np.maximum(expected(a, b, "int32"), 0), shape[2])


def test_batches():
    a, b = te.placeholder((3, 40, 70), "uint8", name="A"), te.placeholder((3, 70, 50), "int8", name="B")
    r = te.reduce_axis((0, 70), "k")
    c = te.compute(
        (3, 40, 50), lambda t, i, j: te.sum(a[t, i, r].astype("int32") * b[t, r, j].astype("int32"), axis=r), name="C"
    )
    for target, needs in TARGETS.values():
        if needs <= HERE:
            sch = library.schedule(te.create_prim_func([a, b, c]), target)
            rng = np.random.default_rng(0)
            x = rng.integers(0, 256, (3, 40, 70)).astype(np.uint8)
            y = rng.integers(-128, 128, (3, 70, 50)).astype(np.int8)
            z = np.zeros((3, 40, 50), np.int32)
            tscript.build(sch.mod, target)["main"](x, y, z)
            np.testing.assert_array_equal(z, x.astype(np.int32) @ y.astype(np.int32))


def test_code_for_another_cpu_says_what_is_missing():
    sch = library.schedule(product(64, 64, 64, *TYPES[1]), "llvm -mcpu=sapphirerapids")
    with pytest.raises(BuildError, match="needs the CPU feature amx"):
        tscript.build(sch.mod, "llvm -mattr=-amx-tile,-amx-int8")


_LOADED = """
import sys
import numpy as np
import tscript
a, b, c = np.ones((64, 64), "int8"), np.full((64, 64), 2, "int8"), np.zeros((64, 64), "int32")
tscript.load_module(sys.argv[1])["main"](a, b, c)
assert (c == 128).all()
"""


def test_a_process_that_only_loads_it_gets_the_tiles_too(tmp_path: Path) -> None:
    target, needs = TARGETS["amx"]
    if not needs <= HERE:
        pytest.skip(f"this CPU lacks {', '.join(sorted(needs - HERE))}")
    sch = library.schedule(product(64, 64, 64, "int8", "int8", "int32"), target)
    path = tmp_path / "product.tslib"
    tscript.build(sch.mod, target).export_library(path)
    done = subprocess.run([sys.executable, "-c", _LOADED, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
