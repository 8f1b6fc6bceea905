"""Arrays, devices, built modules and how they are called and timed."""

from tscript.codegen.threads import num_threads, set_num_threads
from tscript.runtime.device import Device, cpu, cuda, device
from tscript.runtime.function import CompiledFunction
from tscript.runtime.library import load_module
from tscript.runtime.module import Module
from tscript.runtime.ndarray import NDArray
from tscript.runtime.registry import get_global_func, list_global_func_names, register_func, remove_global_func
from tscript.runtime.timing import BenchmarkResult, TimeEvaluator

__all__ = [
    "BenchmarkResult", "CompiledFunction", "Device", "Module", "NDArray", "TimeEvaluator", "cpu", "cuda", "device",
    "get_global_func", "list_global_func_names", "load_module", "num_threads", "register_func", "remove_global_func",
    "set_num_threads",
]  # fmt: skip
