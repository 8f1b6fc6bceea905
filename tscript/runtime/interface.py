"""The interface of a library's kernels as JSON text, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from tscript.codegen.abi import KernelAbi, Parameter
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType
from tscript.ir.expr import Var
from tscript.ir.json_io import load_json, save_json
from tscript.ir.stmt import Stmt
from tscript.runtime.function import FailureRecord, failure_text
from tscript.support.wording import kind_of, with_article


@dataclass(frozen=True, slots=True)
class LoadedFailure:
    """A failure whose text says where it happens already."""

    kind: str
    text: str
    stmt: Stmt | None = None


def save_kernels(kernels: Sequence[KernelAbi]) -> str:
    """The text of some interfaces."""
    records = [
        (
            k.name,
            tuple((p.var, p.buffer, p.written) for p in k.parameters),
            k.symbols,
            None if k.returns is None else str(k.returns),
            k.no_alias,
        )
        for k in kernels
    ]
    return save_json(tuple(records), spans=False)


def load_kernels(text: bytes) -> tuple[KernelAbi, ...]:
    """What `save_kernels` wrote. Raises ValueError or TypeError for any other text."""
    return tuple(_kernel(*_fields(record, 5)) for record in _tuple(load_json(text)))


def _kernel(name: Any, parameters: Any, symbols: Any, returns: Any, no_alias: Any) -> KernelAbi:
    found = tuple(_parameter(*_fields(p, 3)) for p in _tuple(parameters))
    variables = tuple(cast(Var, _of(v, Var)) for v in _tuple(symbols))
    kind = None if returns is None else DataType(_of(returns, str))
    return KernelAbi(_of(name, str), found, variables, kind, _of(no_alias, bool), True)


def _parameter(var: Any, buffer: Any, written: Any) -> Parameter:
    return Parameter(_of(var, Var), None if buffer is None else _of(buffer, Buffer), _of(written, bool))


def save_failures(failures: Sequence[FailureRecord]) -> list[list[str]]:
    """Kinds and full texts of failures."""
    return [[f.kind, failure_text(f)] for f in failures]


def load_failures(records: Any) -> tuple[LoadedFailure, ...]:
    """What `save_failures` wrote. Raises ValueError or TypeError for anything else."""
    found: list[LoadedFailure] = []
    for record in _of(records, list):
        kind, text = _of(record, list)
        found.append(LoadedFailure(_of(kind, str), _of(text, str)))
    return tuple(found)


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"found {kind_of(value)} instead of {with_article(kind.__name__)}")
    return value


def _tuple(value: Any) -> tuple[Any, ...]:
    return _of(value, tuple)


def _fields(value: Any, count: int) -> tuple[Any, ...]:
    if len(_tuple(value)) != count:
        raise ValueError(f"found {len(value)} values instead of {count}")
    return value
