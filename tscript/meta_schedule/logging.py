"""Log files of a tuning run: one for the run, one for each task."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

NAME = "tscript.meta_schedule"
_FORMAT = logging.Formatter("%(asctime)s [%(levelname)s] %(message)s", "%Y-%m-%d %H:%M:%S")


def get_logger(name: str = NAME) -> logging.Logger:
    """The logger of a name."""
    return logging.getLogger(name)


@contextmanager
def run_loggers(
    work_dir: str | Path, task_names: list[str]
) -> Generator[tuple[logging.Logger, list[logging.Logger]], None, None]:
    """The logger of a run and those of its tasks, with their files in `work_dir/logs` while inside.

    The logger of the run, `tscript.meta_schedule`, also writes to standard output, at the level that was set on it
    (all, if none was). Loggers of tasks write to their files only. Files are appended to.
    """
    folder = Path(work_dir) / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    run = logging.getLogger(NAME)
    before = run.level, run.propagate
    console_level = run.level or logging.DEBUG
    console = logging.StreamHandler(sys.stdout)
    console.setLevel(console_level)
    attached = [
        (run, console),
        (run, logging.FileHandler(folder / f"{NAME}.task_scheduler.log", "a", encoding="utf-8")),
    ]
    digits = len(str(max(len(task_names) - 1, 0)))
    tasks: list[logging.Logger] = []
    for i, name in enumerate(task_names):
        safe = re.sub(r"[^\w.-]", "_", name)[:100]
        logger = logging.getLogger(f"{NAME}.task_{i:0{digits}d}_{safe}")
        attached.append((logger, logging.FileHandler(folder / f"{logger.name}.log", "a", encoding="utf-8")))
        tasks.append(logger)
    for logger, handler in attached:
        handler.setFormatter(_FORMAT)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    try:
        run.info("Logging directory: %s", folder)
        if console_level not in (logging.INFO, logging.DEBUG):
            run.warning("the level of %s is %s: what is below it is only in the log files", NAME, console_level)
        yield run, tasks
    finally:
        for logger, handler in attached:
            logger.removeHandler(handler)
            handler.close()
        run.setLevel(before[0])
        run.propagate = before[1]
