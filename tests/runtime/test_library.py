"""Library files: they bring everything along, and nothing damaged, foreign or hostile gets in."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import platform
import random
import struct
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tscript
from tscript import nd
from tscript.codegen.llvm.objects import symbols_of
from tscript.codegen.llvm.stmt import entry_symbol
from tscript.runtime import container
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import (
    AssertFailed,
    BuildError,
    CallError,
    CorruptLibraryError,
    DivisionByZero,
    ExecutionError,
    LibraryError,
    TScriptError,
)

ROOT = Path(__file__).resolve().parents[2]


@I.ir_module
class Kernels:
    @T.prim_func
    def main(a: T.handle, b: T.handle, s: T.float32):
        T.func_attr({"tir.noalias": True})
        n = T.int32()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n, 4), "float32")
        for i, j in T.grid(n, 4):
            B[i, j] = A[i, j] * s

    @T.prim_func
    def divide(x: T.int32, y: T.int32) -> T.int32:
        T.ret(x // y)

    @T.prim_func
    def positive(x: T.float64) -> T.float64:
        with T.Assert(x > T.float64(0), "x must be positive"):
            T.ret(T.sqrt(x))

    @T.prim_func
    def rows(a: T.handle, out: T.Buffer((2,), "bfloat16")):
        s0 = T.int64()
        s1 = T.int64()
        A = T.match_buffer(a, (2, 3), "bfloat16", strides=(s0, s1))
        for i in range(2):
            out[i] = A[i, 0] + A[i, 2]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("library") / "kernels.tslib"
    tscript.build(Kernels).export_library(where)
    return where


@pytest.fixture(scope="module")
def whole(path: Path) -> bytes:
    return path.read_bytes()


def refused(tmp_path: Path, data: bytes, kind: type[Exception] = CorruptLibraryError, text: str | None = None) -> None:
    where = tmp_path / "bad.tslib"
    where.write_bytes(data)
    with pytest.raises(kind, match=text) as e:
        tscript.load_module(where)
    assert isinstance(e.value, (TScriptError, ValueError)) and str(where) in str(e.value)


def sealed(parts: dict[str, bytes]) -> bytes:
    """A file whose checksum is right, whatever its parts are."""
    return container.pack(parts)


def test_a_loaded_library_runs_checks_and_explains_as_the_module_did(path: Path) -> None:
    built, lib = tscript.build(Kernels), tscript.load_module(path)
    assert lib.names == built.names and lib.entry_name == "main" and lib.target == built.target
    assert lib.type_key == "llvm" and type(lib["main"]) is type(built["main"])
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    for b in (np.zeros_like(a), nd.zeros((3, 4))):
        lib(a, b, 2.0)
        np.testing.assert_array_equal(np.asarray(b), a * 2)
    assert lib["divide"](-7, 2) == -4 and lib["positive"](4.0) == 2.0
    rows, out = np.ones((3, 2), ml_dtypes.bfloat16), np.zeros(2, ml_dtypes.bfloat16)
    lib["rows"](rows.T, out)
    assert out.tolist() == [2, 2]
    wrong = [
        ("main", (a, a[:2].copy(), 1.0)), ("main", (a, a, 1.0)), ("main", (a, a)), ("main", (a.astype("f8"), a, 1.0)),
        ("divide", (1, 0)), ("positive", (-1.0,)), ("rows", (rows, out)),
    ]  # fmt: skip
    for name, args in wrong:
        with pytest.raises((CallError, ExecutionError)) as ours:
            built[name](*args)
        with pytest.raises(type(ours.value)) as theirs:
            lib[name](*args)
        assert str(theirs.value) == str(ours.value)


def test_failures_keep_their_statements(path: Path) -> None:
    lib = tscript.load_module(path)
    with pytest.raises(
        DivisionByZero, match=r"divide: division by zero\n  in: return x // y\n  --> .*test_library\.py:"
    ):
        lib["divide"](1, 0)
    with pytest.raises(AssertFailed, match="positive: x must be positive"):
        lib["positive"](-1.0)


def test_sources_and_timing_come_along(path: Path) -> None:
    built, lib = tscript.build(Kernels), tscript.load_module(path)
    assert lib.get_source() == built.get_source() and lib.get_source("asm") == built.get_source("asm")
    with pytest.raises(ValueError, match="choose 'll' or 'asm'"):
        lib.get_source("c")
    a = np.zeros((3, 4), np.float32)
    assert lib.time_evaluator("main", number=2)(a, a + 1, 2.0).mean > 0


def test_a_library_can_be_exported_again(path: Path, whole: bytes, tmp_path: Path) -> None:
    tscript.load_module(path).export_library(tmp_path / "again.tslib")
    assert (tmp_path / "again.tslib").read_bytes() == whole


def test_a_fresh_process_loads_it_without_compiling_anything(path: Path, tmp_path: Path) -> None:
    program = """
import sys, numpy as np, tscript, tscript.runtime
lib = tscript.load_module(sys.argv[1])
# What would compile is not even loaded: the generator of LLVM IR, the parser's use of sources, the passes.
assert "tscript.codegen.llvm.module" not in sys.modules and "tscript.driver" not in sys.modules
import llvmlite.binding as llvm
def no(*a, **k): raise AssertionError("compiles")
llvm.TargetMachine.emit_object = llvm.create_pass_builder = no
lib = tscript.load_module(sys.argv[1])
a = np.ones((2, 4), np.float32); b = np.zeros_like(a)
lib(a, b, 3.0)
try: lib["divide"](1, 0)
except ZeroDivisionError as e: print(b.sum(), str(e).splitlines()[1].strip())
"""
    environment = {k: v for k, v in os.environ.items() if k != "PATH"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "24.0 in: return x // y"


def test_imported_modules_come_along(tmp_path: Path) -> None:
    outer, inner = tscript.build(Kernels), tscript.build(Kernels["divide"])
    outer.import_module(inner)
    outer.export_library(tmp_path / "two.tslib")
    lib = tscript.load_module(tmp_path / "two.tslib")
    assert lib.imported_modules[0]["divide"](9, 2) == 4
    lib.clear_imports()
    assert not lib.imported_modules


def test_functions_keep_the_code_of_a_library_alive(path: Path) -> None:
    f = tscript.load_module(path)["divide"]
    for _ in range(3):
        tscript.load_module(path)
    assert f(9, 3) == 3


def test_a_failed_export_leaves_what_was_there(path: Path, tmp_path: Path, monkeypatch) -> None:
    where = tmp_path / "a.tslib"
    where.write_bytes(b"before")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        tscript.load_module(path).export_library(where)
    assert where.read_bytes() == b"before" and os.listdir(tmp_path) == ["a.tslib"]
    with pytest.raises(FileNotFoundError):
        tscript.load_module(path).export_library(tmp_path / "none" / "a.tslib")


def test_files_of_other_kinds_are_named(tmp_path: Path) -> None:
    refused(tmp_path, b"", text="is empty")
    refused(tmp_path, b"\x7fELF" + bytes(100), text="no library of tscript, but a shared library or program")
    refused(tmp_path, b"PK\x03\x04", text="but a ZIP archive")
    refused(tmp_path, b"hello, world", text="but something else")
    refused(tmp_path, container.MAGIC.replace(b"\r\n", b"\n") + bytes(90), text="something else")
    with pytest.raises(FileNotFoundError):
        tscript.load_module(tmp_path / "none.tslib")
    with pytest.raises(OSError):
        tscript.load_module(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CorruptLibraryError, match="no regular file"):
        tscript.load_module(tmp_path / "pipe")


def test_later_versions_and_other_machines_are_refused(whole: bytes, tmp_path: Path) -> None:
    refused(tmp_path, whole[:8] + struct.pack("<I", 2) + whole[12:], LibraryError, "version 2 of the format")
    parts = container.unpack(whole, "x")
    facts = json.loads(parts["fact"])

    def with_facts(**changes: object) -> bytes:
        return sealed({**parts, "fact": json.dumps({**facts, **changes}).encode()})

    refused(tmp_path, with_facts(triple="aarch64-unknown-linux-gnu"), LibraryError, "holds code for aarch64-unknown")
    refused(tmp_path, with_facts(triple="x86_64-pc-windows-msvc"), LibraryError, "holds code for x86_64-pc-windows")
    needs = {name: ["made-up-feature"] for name in facts["features"]}
    refused(tmp_path, with_facts(features=needs), LibraryError, "does not have: made-up-feature")
    vendor = with_facts(triple=facts["triple"].replace("-unknown-", "-pc-"))
    (tmp_path / "vendor.tslib").write_bytes(vendor)
    assert tscript.load_module(tmp_path / "vendor.tslib")["divide"](4, 2) == 2


def test_a_function_for_a_better_cpu_is_refused_when_called_and_the_others_work(whole: bytes, tmp_path: Path) -> None:
    parts = container.unpack(whole, "x")
    facts = json.loads(parts["fact"])
    facts["features"]["divide"] = ["made-up-feature"]
    (tmp_path / "some.tslib").write_bytes(sealed({**parts, "fact": json.dumps(facts).encode()}))
    lib = tscript.load_module(tmp_path / "some.tslib")
    assert lib["positive"](9.0) == 3
    with pytest.raises(ExecutionError, match="built for a CPU with made-up-feature, which this machine lacks"):
        lib["divide"](4, 2)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names CPUs of this kind")
def test_a_library_needs_what_its_target_says_and_no_more(tmp_path: Path) -> None:
    def needs(options: str) -> set[str]:
        tscript.build(Kernels["divide"], f"llvm {options}").export_library(tmp_path / "a.tslib")
        return {*json.loads(container.read(tmp_path / "a.tslib")["fact"])["features"]["divide"]}

    assert {"avx2", "fma"} <= needs("-mcpu=x86-64-v3") and "avx512f" not in needs("-mcpu=x86-64-v3")
    assert not needs("-mcpu=generic") and "avx" in needs("-mcpu=generic -mattr=+avx")
    # What this CPU has is not in the tables: machines with as much as this one will do.
    assert needs("") <= needs("-mcpu=barcelona")


def test_every_flipped_byte_is_noticed(whole: bytes, tmp_path: Path) -> None:
    generator = random.Random(1)
    near_the_start = range(64)
    anywhere = [generator.randrange(len(whole)) for _ in range(400)]
    for at in [*near_the_start, *anywhere, *range(len(whole) - 40, len(whole))]:
        data = bytearray(whole)
        data[at] ^= 1 << generator.randrange(8)
        refused(tmp_path, bytes(data), LibraryError)


def test_every_truncation_and_extension_is_noticed(whole: bytes, tmp_path: Path) -> None:
    ends = [0, 1, 7, 8, 11, 12, 23, 24, 30, 36, len(whole) - 33, len(whole) - 32, len(whole) - 1]
    at = 24
    for content in container.unpack(whole, "x").values():
        at += 12 + len(content)
        ends += [at - len(content), at - 1, at]
    for end in ends:
        refused(tmp_path, whole[:end], CorruptLibraryError)
        # The size and checksum of the shorter file are right, its parts are not.
        if end > 24:
            body = whole[:16] + struct.pack("<Q", end + 32) + whole[24:end]
            if body + hashlib.sha256(body).digest() != whole:
                refused(tmp_path, body + hashlib.sha256(body).digest(), CorruptLibraryError)
    refused(tmp_path, whole + b"\0", CorruptLibraryError, "should have")


def test_huge_numbers_take_no_memory(whole: bytes, tmp_path: Path) -> None:
    for at, form in ((12, "<I"), (16, "<Q"), (28, "<Q")):
        size = struct.calcsize(form)
        for value in (256**size - 1, 256**size // 2, 1 << 31):
            body = whole[:at] + struct.pack(form, value) + whole[at + size : -32]
            refused(tmp_path, body + hashlib.sha256(body).digest(), CorruptLibraryError)


def test_random_bytes_are_refused(tmp_path: Path) -> None:
    generator = random.Random(2)
    for length in (*range(0, 80, 3), 1000, 20000):
        refused(tmp_path, generator.randbytes(length))
        refused(tmp_path, container.MAGIC + generator.randbytes(length), LibraryError)
        refused(tmp_path, sealed({f"p{i:03}": generator.randbytes(length) for i in range(3)}))


@pytest.mark.parametrize("part", ["fact", "face"])
def test_interfaces_are_checked_even_where_the_checksum_is_right(part: str, whole: bytes, tmp_path: Path) -> None:
    generator = random.Random(3)
    parts = container.unpack(whole, "x")
    where, refusals = tmp_path / "odd.tslib", 0
    for _ in range(300):
        data = bytearray(parts[part])
        for _ in range(generator.choice([1, 1, 4])):
            data[generator.randrange(len(data))] = generator.randrange(256)
        where.write_bytes(sealed({**parts, part: bytes(data)}))
        try:
            tscript.load_module(where)  # some changes are harmless: a name, a text of a failure
        except (TScriptError, ValueError) as e:
            assert str(where) in str(e) or isinstance(e, BuildError)
            refusals += 1
    assert refusals > 100
    for data in (b"", b"null", b"[]", b"[" * 100_000, b"{}", b'{"triple": 3}'):
        refused(tmp_path, sealed({**parts, part: data}))
    without = {k: v for k, v in parts.items() if k != part}
    refused(tmp_path, sealed(without))


def test_object_code_is_read_before_it_is_loaded(whole: bytes, tmp_path: Path) -> None:
    parts = container.unpack(whole, "x")
    code = parts["code"]
    refused(tmp_path, sealed({**parts, "code": b"MZ" + code[2:]}), text="no known form")
    refused(tmp_path, sealed({**parts, "code": code[:100]}))
    refused(tmp_path, sealed({**parts, "code": b"\xcf\xfa\xed\xfe" + code[4:]}), text="another system")
    symbol = entry_symbol("divide").encode()
    renamed = code.replace(symbol, symbol[:-1] + b"X")
    refused(tmp_path, sealed({**parts, "code": renamed}), text="does not define")
    unresolved = code.replace(b"\0PyFloat_FromDouble\0", b"\0PyFloat_FromDoublX\0")
    refused_build = tmp_path / "unresolved.tslib"
    refused_build.write_bytes(sealed({**parts, "code": unresolved}))
    with pytest.raises(BuildError, match="PyFloat_FromDoublX"):
        tscript.load_module(refused_build)
    generator = random.Random(4)
    for _ in range(2000):
        data = bytearray(code)
        for _ in range(3):
            data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            symbols_of(bytes(data))
        except ValueError as e:
            assert "object code" in str(e)


def test_hostile_object_code_does_not_end_the_process(path: Path, tmp_path: Path) -> None:
    program = """
import random, sys
import tscript, tscript.runtime
from tscript.runtime import container
parts = container.unpack(open(sys.argv[1], "rb").read(), "x")
generator, refused, where = random.Random(5), 0, sys.argv[2]
for i in range(400):
    data = bytearray(parts["code"])
    # Half of the changes go to the tables at the end, where the loader looks.
    start = len(data) // 2 if i % 2 else 0
    for _ in range(generator.choice([1, 2, 8])):
        value = generator.choice([0, 1, 2, 127, 128, 255, generator.randrange(256)])
        data[generator.randrange(start, len(data))] = value
    container.write(where, container.pack({**parts, "code": bytes(data)}))
    try:
        tscript.load_module(where)
    except (tscript.error.TScriptError, ValueError):
        refused += 1
print(refused)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), str(tmp_path / "odd.tslib")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert 100 < int(done.stdout) < 400


def test_no_part_of_a_refused_file_is_executed(whole: bytes, tmp_path: Path) -> None:
    parts = container.unpack(whole, "x")
    trace = tmp_path / "trace"
    attack = f"__import__('pathlib').Path({str(trace)!r}).touch()".encode()

    class Bomb:
        def __reduce__(self) -> tuple:
            return Path.touch, (trace,)

    for data in (attack, pickle.dumps(Bomb())):
        for name in parts:
            if name in ("fact", "face", "code"):
                refused(tmp_path, sealed({**parts, name: data}))
    assert not trace.exists()
