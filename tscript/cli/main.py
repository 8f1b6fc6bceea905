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
from tscript.cli.tuning import (
    TuneRequest,
    run_database_check,
    run_database_show,
    run_merge,
    run_prune,
    run_query,
    run_repair,
    run_tune,
)
from tscript.support.errors import TScriptError
from tscript.support.version import VERSION

_DESCRIPTION = "Write kernels as decorated Python, look at them, run them, build them to native code."


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tscript", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"tscript {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo", help="a matrix product with ReLU: shown, interpreted, built, checked, timed and tuned"
    )
    demo.add_argument("--quick", action="store_true", help="time few calls and try few schedules only")
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
    _add_tuning(commands)
    commands.add_parser("doctor", help="what this machine and installation offer, and what is missing")
    return parser


def _add_tuning(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:  # pyright: ignore[reportPrivateUsage]
    tune = commands.add_parser("tune", help="search for a fast schedule of the kernels of a file")
    tune.add_argument("program", metavar="FILE[:NAME]", help="as for show")
    tune.add_argument("--target", metavar="T", default="llvm", help='what to compile for, such as "llvm -num-cores 2"')
    tune.add_argument("--trials", metavar="N", type=int, default=64, help="candidates to measure; default: 64")
    tune.add_argument(
        "--work-dir", metavar="DIR", type=Path, default=Path("tuning"), help="for records and logs; resumes from there"
    )
    tune.add_argument("--seed", metavar="N", type=int, help="makes the search repeatable")
    tune.add_argument("--quiet", action="store_true", help="print the result only")
    db = commands.add_parser("db", help="look after databases of tuning records (a folder, or an SQLite file)")
    actions = db.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="programs, targets and best times")
    show.add_argument("database", metavar="DB", type=Path)
    for word, words in (
        ("merge", "add the records of other databases to DB"),
        ("import", "add the records of text files or another database to DB"),
    ):
        merge = actions.add_parser(word, help=words)
        merge.add_argument("database", metavar="DB", type=Path)
        merge.add_argument("others", metavar="FROM", type=Path, nargs="+")
    export = actions.add_parser("export", help="write all records of DB elsewhere, such as to a folder of text files")
    prune = actions.add_parser("prune", help="write the best record of each program and target to another place")
    for parser in (export, prune):
        parser.add_argument("database", metavar="DB", type=Path)
        parser.add_argument("to", metavar="TO", type=Path)
    query = actions.add_parser("query", help="the best known schedule of a file's kernels")
    query.add_argument("database", metavar="DB", type=Path)
    query.add_argument("program", metavar="FILE[:NAME]", help="as for show")
    query.add_argument("--target", metavar="T", default="llvm", help="as for tune")
    look = actions.add_parser("check", help="say what cannot be read, and change nothing")
    fix = actions.add_parser("repair", help="keep what can be read of a damaged database, and the damaged file too")
    for parser in (look, fix):
        parser.add_argument("database", metavar="DB", type=Path)


def _run_database(arguments: argparse.Namespace) -> int:
    path = arguments.database
    if arguments.action == "show":
        return run_database_show(path)
    if arguments.action in ("merge", "import"):
        return run_merge(path, arguments.others)
    if arguments.action == "export":
        return run_merge(arguments.to, [path])
    if arguments.action == "prune":
        return run_prune(path, arguments.to)
    if arguments.action == "query":
        return run_query(path, _programs(arguments.program), arguments.target)
    if arguments.action == "check":
        return run_database_check(path)
    return run_repair(path)


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
        if arguments.command == "tune":
            asked = TuneRequest(arguments.target, arguments.trials, arguments.work_dir, arguments.seed, arguments.quiet)
            return run_tune(_programs(arguments.program), asked)
        if arguments.command == "db":
            return _run_database(arguments)
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
