"""The name that users of remote measuring know, and where they find it here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from tscript.meta_schedule.runner.evaluator_config import EvaluatorConfig
from tscript.support.errors import TuneError


@dataclass(frozen=True)
class RPCConfig:
    """Where a tracker is: accepted, so that scripts that name one get as far as the message of `RPCRunner`."""

    tracker_host: str | None = None
    tracker_port: int | None = None
    tracker_key: str | None = None
    session_priority: int = 1
    session_timeout_sec: int = 10


class RPCRunner:
    """Not offered: remote machines are reached by an executor. Always raises TuneError, which says how.

    >>> try:
    ...     RPCRunner()
    ... except TuneError as e:
    ...     print(str(e).partition(";")[0])
    there is no tracker to measure on
    """

    def __init__(
        self,
        rpc_config: RPCConfig | None = None,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        alloc_repeat: int = 1,
        f_create_session: str | Callable[..., Any] | None = None,
        f_upload_module: str | Callable[..., Any] | None = None,
        f_alloc_argument: str | Callable[..., Any] | None = None,
        f_run_evaluator: str | Callable[..., Any] | None = None,
        f_cleanup: str | Callable[..., Any] | None = None,
        max_workers: int = 1,
        initializer: Callable[[], object] | None = None,
    ) -> None:
        del rpc_config, evaluator_config, cooldown_sec, alloc_repeat, max_workers, initializer
        del f_create_session, f_upload_module, f_alloc_argument, f_run_evaluator, f_cleanup
        _refuse()


def _refuse() -> NoReturn:
    raise TuneError(
        "there is no tracker to measure on; to measure on other machines, give LocalBuilder and LocalRunner an "
        "executor that reaches them, for example LocalRunner(executor=distributed.Client(address).get_executor()) of "
        "the Dask package `distributed`"
    )
