"""Files with machine code in, times out."""

from tscript.meta_schedule.runner.evaluator_config import EvaluatorConfig
from tscript.meta_schedule.runner.local_runner import LocalRunner
from tscript.meta_schedule.runner.measure_job import default_alloc_argument, default_run_evaluator
from tscript.meta_schedule.runner.rpc_runner import RPCConfig, RPCRunner
from tscript.meta_schedule.runner.runner import (
    PyRunner,
    PyRunnerFuture,
    Runner,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)

Runner.register_kind("local", LocalRunner)
Runner.register_kind("rpc", RPCRunner)

__all__ = [
    "EvaluatorConfig",
    "LocalRunner",
    "PyRunner",
    "PyRunnerFuture",
    "RPCConfig",
    "RPCRunner",
    "Runner",
    "RunnerFuture",
    "RunnerInput",
    "RunnerResult",
    "default_alloc_argument",
    "default_run_evaluator",
]
