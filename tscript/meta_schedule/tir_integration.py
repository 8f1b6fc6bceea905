"""Tuning of functions and modules."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from logging import Logger
from typing import Any

import numpy as np

from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block
from tscript.meta_schedule.builder import Builder
from tscript.meta_schedule.cost_model import CostModel
from tscript.meta_schedule.database import Database
from tscript.meta_schedule.logging import run_loggers
from tscript.meta_schedule.measure_callback import MeasureCallback
from tscript.meta_schedule.mutator import Mutator
from tscript.meta_schedule.postproc import Postproc
from tscript.meta_schedule.runner import Runner
from tscript.meta_schedule.schedule_rule import ScheduleRule
from tscript.meta_schedule.search_strategy import SearchStrategy
from tscript.meta_schedule.space_generator import PostOrderApply, SpaceGenerator, make_space
from tscript.meta_schedule.task_scheduler import TaskScheduler
from tscript.meta_schedule.tune import tune_tasks
from tscript.meta_schedule.tune_config import TuneConfig
from tscript.meta_schedule.tune_context import TuneContext, normalize_mod
from tscript.schedule.schedule import Schedule
from tscript.support.errors import TuneError
from tscript.target.target import Target

Space = SpaceGenerator | str | Any


def tune_tir(
    mod: IRModule | PrimFunc,
    target: Target | str,
    work_dir: str,
    max_trials_global: int | None = None,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Builder | str = "local",
    runner: Runner | str = "local",
    database: Database | str = "json",
    cost_model: CostModel | str | None = "xgb",
    measure_callbacks: MeasureCallback | Sequence[MeasureCallback] | str = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    space: Space = "post-order-apply",
    strategy: SearchStrategy | str = "evolutionary",
    num_tuning_cores: int | str = "physical",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, Space | None] | None = None,
    post_optimization: bool = False,
    config: TuneConfig | None = None,
    sch_rules: Sequence[ScheduleRule] | str | None = None,
    postprocs: Sequence[Postproc] | str | None = None,
    mutator_probs: Mapping[Mutator, float] | str | None = None,
    task_name: str | None = None,
    num_threads: int | None = None,
) -> Any:
    """Search for fast schedules of a function, or of each function of a module; the database of what was measured.

    Candidates are built, held to the unscheduled program's results and timed; records go to `database` ("json" keeps
    them in `work_dir`), logs to `work_dir/logs`. A second run with the same `work_dir` goes on where the first ended.
    `space` says which schedules there are: a word, a space generator, or a function that schedules; `special_space`
    gives functions, by name, spaces of their own, None for those that are left alone. `seed` makes the search
    repeatable. `compile_tir` looks the best schedule up.

    With `config` (a `TuneConfig`, the form of older articles) the best schedule is returned, or None; `sch_rules`,
    `postprocs`, `mutator_probs`, `task_name` and `num_threads` belong to that form.

    Raises ValueError for bad settings, TuneError when nothing can be tuned.
    """
    if config is not None:
        max_trials_global = config.trials
        max_trials_per_task, num_trials_per_iter = config.max_trials_per_task, config.num_trials_per_iter
        task_scheduler = TaskScheduler.create(config.task_scheduler, **(config.task_scheduler_config or {}))
        strategy = SearchStrategy.create(config.strategy, **(config.search_strategy_config or {}))
    if max_trials_global is None:
        raise ValueError("max_trials_global says how many candidates to measure; it is missing")
    if isinstance(target, str):
        target = Target(target)
    if sch_rules is not None or postprocs is not None or mutator_probs is not None:
        if space != "post-order-apply":
            raise ValueError("sch_rules, postprocs and mutator_probs belong to the space: give them to its constructor")
        space = PostOrderApply(sch_rules=sch_rules, postprocs=postprocs, mutator_probs=mutator_probs)
    mods = _tasks_of(mod, space, special_space or {})
    if task_name is not None and len(mods) == 1:
        mods = [(task_name, mods[0][1], mods[0][2])]
    cores = num_tuning_cores if num_threads is None else num_threads
    with run_loggers(work_dir, [name for name, _, _ in mods]) as (_, loggers):
        contexts = _contexts(mods, target, strategy, cores, seed, loggers)
        found = tune_tasks(
            tasks=contexts,
            task_weights=[1.0] * len(contexts),
            work_dir=work_dir,
            max_trials_global=max_trials_global,
            max_trials_per_task=max_trials_per_task,
            num_trials_per_iter=num_trials_per_iter,
            builder=builder,
            runner=runner,
            database=database,
            cost_model=cost_model,
            measure_callbacks=measure_callbacks,
            task_scheduler=task_scheduler,
            module_equality=module_equality,
            post_optimization=post_optimization,
        )
    return found if config is None else compile_tir(found, mod, target)


_Task = tuple[str, IRModule, Space]


def _contexts(
    tasks: Sequence[_Task],
    target: Target,
    strategy: SearchStrategy | str,
    cores: int | str,
    seed: int | None,
    loggers: Sequence[Logger],
) -> list[TuneContext]:
    """The context of each task, with random numbers of its own."""
    seeds = np.random.RandomState(seed).randint(1, 2**30, size=len(tasks)).tolist()
    return [
        TuneContext(
            mod,
            target=target,
            space_generator=make_space(space).clone(),
            search_strategy=SearchStrategy.create(strategy).clone(),
            task_name=name,
            rand_state=state,
            num_threads=cores,
            logger=logger,
        )
        for (name, mod, space), state, logger in zip(tasks, seeds, loggers, strict=True)
    ]


def _tasks_of(mod: IRModule | PrimFunc, space: Space, special: Mapping[str, Space | None]) -> list[_Task]:
    """Name, module and space of each task, by name of function."""
    whole = normalize_mod(mod)
    if isinstance(mod, IRModule) and len(mod.functions) == 1:
        names = {next(iter(mod.functions)).name_hint: next(iter(whole.functions.values()))}
    else:
        names = {v.name_hint: f for v, f in whole.functions.items()}
    unknown = sorted(set(special) - set(names))
    if unknown:
        raise ValueError(f"special_space names {', '.join(unknown)}; the functions are {', '.join(sorted(names))}")
    tasks: list[_Task] = []
    refused: list[str] = []
    for name in sorted(names):
        own = special.get(name, space)
        if own is not None and not _has_choices(names[name], own):
            refused.append(
                f"{name} has no schedulable block; wrap the statement that computes in T.block, with an axis for each "
                "loop around it, so that rules can tell what may be reordered"
            )
        elif own is not None:
            tasks.append((name, normalize_mod(names[name].with_attr("global_symbol", "main")), own))
    if refused and not tasks:
        raise TuneError("; ".join(refused))
    for text in refused:
        logging.getLogger("tscript.meta_schedule").warning("not tuned: %s", text)
    return tasks


def _has_choices(func: PrimFunc, space: Space) -> bool:
    """Whether rules find a block with axes; a space of the user's may do without."""
    if not isinstance(space, (str, PostOrderApply)):
        return True
    found = False

    def look(node: object) -> None:
        nonlocal found
        found = found or (isinstance(node, Block) and bool(node.iter_vars))

    post_order_visit(func.body, look)
    return found


def compile_tir(database: Database, mod: IRModule | PrimFunc, target: Target | str) -> Schedule | None:
    """The best schedule that the database knows for a program and target; None where there is none."""
    return database.query_schedule(normalize_mod(mod), Target(target) if isinstance(target, str) else target, "main")


__all__ = ["compile_tir", "tune_tir"]
