"""Commands and their arguments."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tscript.cli.checking import run_check
from tscript.cli.demo import run_demo
from tscript.cli.doctor import run_doctor
from tscript.cli.loading import LoadError, Program, load_file, pick
from tscript.cli.tracing import Request, run_trace
from tscript.support.errors import TScriptError
from tscript.support.version import VERSION

_DESCRIPTION = "Write kernels as decorated Python, look at them, run them, build them to native code."


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tscript", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"tscript {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="a matrix product with ReLU: shown, interpreted, built, checked and timed")
    demo.add_argument("--quick", action="store_true", help="time few calls only")
    show = commands.add_parser("show", help="print the kernels of a file")
    show.add_argument(
        "program", metavar="FILE[:NAME]", help="a Python file, or printed text; NAME picks one (or MODULE.FUNCTION)"
    )
    check = commands.add_parser("check", help="look for accesses out of bounds, unwritten memory and races in a file")
    check.add_argument("program", metavar="FILE[:NAME]", help="as for show")
    check.add_argument("--strict", action="store_true", help="fail also for what cannot be shown to be right")
    trace = commands.add_parser("trace", help="the steps of a saved schedule, with what each changes and costs")
    trace.add_argument(
        "file", metavar="FILE", type=Path, help="from Schedule.save, or a trace as JSON, or as Python (apply_trace)"
    )
    trace.add_argument("--workload", metavar="FILE[:NAME]", help="the program of a trace that does not bring its own")
    trace.add_argument("--step", metavar="N", type=int, help="the whole program at step N, with its changes marked")
    trace.add_argument("--costs", action="store_true", help="a table of what the program costs after each step")
    trace.add_argument("--html", metavar="OUT", type=Path, help="write a page to go through the steps in a browser")
    trace.add_argument(
        "--target", metavar="T", help="what costs are estimated for; default: what the program looks like"
    )
    commands.add_parser("doctor", help="what this machine and installation offer, and what is missing")
    return parser


def _split_name(text: str) -> tuple[Path, str | None]:
    head, colon, name = text.rpartition(":")
    if colon and all(part.isidentifier() for part in name.split(".")) and not Path(text).exists():
        return Path(head), name
    return Path(text), None


def _programs(text: str) -> list[Program]:
    """The programs of `FILE[:NAME]`; LoadError without any."""
    path, name = _split_name(text)
    programs = load_file(path)
    if name is not None:
        return [pick(programs, name, path)]
    if not programs:
        raise LoadError(f"{path} defines no kernel (a function under @T.prim_func or a class under @I.ir_module)")
    return list(programs.values())


def _request(arguments: argparse.Namespace) -> Request:
    workload = None if arguments.workload is None else _split_name(arguments.workload)
    return Request(arguments.file, workload, arguments.step, arguments.costs, arguments.html, arguments.target)


def run_show(program: str) -> int:
    """Print the programs of `FILE[:NAME]`, as `show` does for each."""
    for found in _programs(program):
        found.show()
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 if it did what was asked, 1 for an error, 2 for wrong usage."""
    arguments = _arguments().parse_args(argv)
    try:
        if arguments.command == "demo":
            return run_demo(quick=arguments.quick)
        if arguments.command == "show":
            return run_show(arguments.program)
        if arguments.command == "check":
            return run_check(_programs(arguments.program), strict=arguments.strict)
        if arguments.command == "trace":
            return run_trace(_request(arguments))
        return run_doctor()
    except TScriptError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has seen enough; that is no failure. What is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
