"""Runs programs with Apache TVM for `cpu.py`, which starts this in TVM's own interpreter.

A line of JSON in, one out: `{}` gives the version; a program with the shapes and types of its arguments is scheduled
and built; a number runs it so many times. The schedule is the plain good one that TVM's tutorials arrive at by hand:
products in tiles that are collected in a small array, parallel outside and vectors inside; all else parallel over rows,
with vectors along them where nothing is reduced. What tuning finds is for `tune.py` to tell.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

import numpy as np

ROWS, COLUMNS, LANES = 8, 64, 16


def largest_divisor(extent: int, limit: int) -> int:
    """The largest divisor of `extent` up to `limit`."""
    return next(n for n in range(min(extent, limit), 0, -1) if extent % n == 0)


def product(sch: Any, block: Any, spatial: list[Any], reduced: list[Any]) -> None:
    """Tiles that a small array collects over the whole reduction."""
    *outer, i, j = spatial
    i_extent, j_extent = (int(sch.get(loop).extent) for loop in (i, j))
    i0, i1 = sch.split(i, [None, largest_divisor(i_extent, ROWS)])
    j0, j1 = sch.split(j, [None, largest_divisor(j_extent, COLUMNS)])
    tile = sch.cache_write(block, 0, "global")
    sch.reorder(*outer, i0, j0, *reduced, i1, j1)
    fused = sch.fuse(*outer, i0, j0)
    sch.parallel(fused)
    sch.reverse_compute_at(tile, fused)
    sch.unroll(i1)
    sch.vectorize(j1)
    sch.vectorize(sch.get_loops(tile)[-1])
    sch.decompose_reduction(block, reduced[0])


def rows(sch: Any, spatial: list[Any], reduced: list[Any]) -> None:
    """Parallel outside, vectors inside where nothing is reduced."""
    if not spatial:
        return
    if reduced or len(spatial) == 1:
        outer = sch.fuse(*spatial) if len(spatial) > 1 else spatial[0]
        if not reduced:
            outer, inner = sch.split(outer, [None, LANES])
            sch.vectorize(inner)
        sch.parallel(outer)
        return
    *others, last = spatial
    _, inner = sch.split(last, [None, LANES])
    sch.vectorize(inner)
    sch.parallel(sch.fuse(*others) if len(others) > 1 else others[0])


def scheduled(tvm: Any, module: Any) -> Any:
    """The schedule of a module with one function."""
    sch = tvm.s_tir.Schedule(module)
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        kinds = [v.iter_type for v in sch.get(block).iter_vars]
        loops = sch.get_loops(block)
        if len(kinds) != len(loops):
            continue
        spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == 0]
        reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == 2]
        if len(spatial) > 1 and reduced:
            product(sch, block, spatial, reduced)
        else:
            rows(sch, spatial, reduced)
    return sch.mod


def array(tvm: Any, shape: list[int], dtype: str) -> Any:
    """Numbers of a type, in TVM's memory."""
    rng: Any = np.random.default_rng(0)
    if dtype == "bfloat16":
        kind: Any = importlib.import_module("ml_dtypes").bfloat16
        return tvm.runtime.tensor(rng.random(shape).astype("float32").astype(kind))
    return tvm.runtime.tensor((rng.random(shape) * (1 if dtype.startswith("float") else 9)).astype(dtype))


def load(tvm: Any, request: dict[str, Any], threads: int) -> tuple[Any, list[Any]]:
    """The function of a program and its arguments."""
    func = tvm.script.from_source(request["program"])
    module = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": threads})
    built = tvm.compile(scheduled(tvm, module), target)["main"]
    arguments = [array(tvm, shape, dtype) for shape, dtype in request["arguments"]]
    built(*arguments)
    return built, arguments


def main() -> None:
    """Answer line by line until the input ends."""
    threads = int(sys.argv[1])
    os.environ["TVM_NUM_THREADS"] = str(threads)
    answers, sys.stdout = sys.stdout, sys.stderr  # what TVM prints is no answer
    tvm: Any = importlib.import_module("tvm")
    importlib.import_module("tvm.script.tirx")
    importlib.import_module("tvm.s_tir")
    built: Any = None
    arguments: list[Any] = []
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {"version": tvm.__version__}
        if "program" in request:
            try:
                built, arguments = load(tvm, request, threads)
            except Exception as error:  # whatever it is, the row goes on without this contender
                answer = {"failure": (str(error).strip().splitlines() or [repr(error)])[-1][:200]}
        elif "number" in request:
            start = time.perf_counter()
            for _ in range(request["number"]):
                built(*arguments)
            answer = {"seconds": time.perf_counter() - start}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
