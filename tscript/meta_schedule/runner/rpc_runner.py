"""The name that users of remote measuring know, and where they find it here."""

from __future__ import annotations

from typing import Any, NoReturn

from tscript.support.errors import TuneError


class RPCRunner:
    """Not offered: remote machines are reached by an executor. Always raises TuneError, which says how.

    >>> try:
    ...     RPCRunner()
    ... except TuneError as e:
    ...     print(str(e).partition(";")[0])
    there is no tracker to measure on
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise TuneError(
        "there is no tracker to measure on; to measure on other machines, give LocalBuilder and LocalRunner an "
        "executor that reaches them, for example LocalRunner(executor=distributed.Client(address).get_executor()) of "
        "the Dask package `distributed`"
    )
