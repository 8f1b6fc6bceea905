"""Tuning of several tasks with one budget."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tscript.meta_schedule.builder import Builder
from tscript.meta_schedule.cost_model import CostModel
from tscript.meta_schedule.database import Database, make_database
from tscript.meta_schedule.measure_callback import MeasureCallback
from tscript.meta_schedule.post_optimization import refine
from tscript.meta_schedule.run_state import RunState
from tscript.meta_schedule.runner import Runner
from tscript.meta_schedule.task_scheduler import TaskScheduler
from tscript.meta_schedule.tune_context import TuneContext


def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: str,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Builder | str = "local",
    runner: Runner | str = "local",
    database: Database | str = "json",
    cost_model: CostModel | str | None = "xgb",
    measure_callbacks: MeasureCallback | Sequence[MeasureCallback] | str = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    module_equality: str = "structural",
    post_optimization: bool = False,
) -> Database:
    """Tune tasks, and return the database of what was measured.

    `max_trials_global` is shared by all tasks, `max_trials_per_task` (by default the same) limits each, and
    `num_trials_per_iter` are built and measured at a time. Parts may be given by their words. The database is in
    `work_dir` unless one is given; what it holds already is where the search begins, and so are the random numbers (of
    a task with the same seed) and the cost model that an earlier run left in `work_dir`.

    `post_optimization` then changes the choices of the best schedules one at a time, in up to 100 more trials each.

    Raises ValueError for no tasks, for as many weights as not there are tasks, and for words that name no part.
    """
    if not tasks:
        raise ValueError("No tasks to tune.")
    if len(tasks) != len(task_weights):
        raise ValueError(f"{len(tasks)} tasks were given {len(task_weights)} weights; each task needs one")
    _require_trials(max_trials_global, max_trials_per_task, num_trials_per_iter)
    threads = tasks[0].num_threads
    if isinstance(builder, str):
        builder = Builder.create(builder, max_workers=threads)
    if isinstance(runner, str):
        runner = Runner.create(runner, max_workers=threads)
    if database == "json" or database == "sqlite":
        database = make_database(database, work_dir=work_dir, module_equality=module_equality)
    elif isinstance(database, str) or not isinstance(database, Database):  # pyright: ignore[reportUnnecessaryIsInstance]
        database = make_database(database, module_equality=module_equality)
    word = cost_model if isinstance(cost_model, str) else ""
    if isinstance(cost_model, str):
        cost_model = _cost_model(cost_model, threads)
    callbacks: Any = (
        MeasureCallback.create(measure_callbacks) if isinstance(measure_callbacks, str) else measure_callbacks
    )
    if isinstance(callbacks, MeasureCallback):
        callbacks = [callbacks]
    state = RunState(work_dir, cost_model if word else None, word)
    # Before the state is brought back: who is chosen among equals follows from the seeds alone.
    options = {"seed": sum(t.rand_state for t in tasks)} if task_scheduler == "gradient" else {}
    scheduler: TaskScheduler = TaskScheduler.create(task_scheduler, **options)
    state.begin(tasks)
    scheduler.tune(
        tasks,
        task_weights,
        max_trials_global,
        max_trials_global if max_trials_per_task is None else max_trials_per_task,
        num_trials_per_iter,
        builder,  # pyright: ignore[reportArgumentType]
        runner,  # pyright: ignore[reportArgumentType]
        [*callbacks, state],
        database,
        cost_model,
        state.resume,
    )
    if post_optimization:
        refine(tasks, database, builder, runner)  # pyright: ignore[reportArgumentType]
    if database.unkept:
        logging.getLogger("tscript.meta_schedule").error(
            "%d of %d records could not be written: they are in the database that this run returns, and nowhere else",
            database.unkept,
            len(database),
        )
    return database


def _cost_model(word: str, threads: int) -> CostModel | None:
    options: dict[str, Any] = {"num_tuning_cores": threads, "tree_method": "auto"} if word == "xgb" else {}
    return CostModel.create(word, **options)


def _require_trials(max_trials_global: int, max_trials_per_task: int | None, num_trials_per_iter: int) -> None:
    for name, value, least in (
        ("max_trials_global", max_trials_global, 0),
        ("max_trials_per_task", 0 if max_trials_per_task is None else max_trials_per_task, 0),
        ("num_trials_per_iter", num_trials_per_iter, 1),
    ):
        if type(value) is not int or value < least:
            raise ValueError(f"{name} is a number of at least {least}, not {value!r}")
