"""What `I` offers.

Python runs the body of a class before its decorator reads it: what sets something does nothing then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tscript.ir.construct import convert_attr
from tscript.ir.expr import GlobalVar, Range
from tscript.ir.function import IRModule
from tscript.parser.diagnostics import fail
from tscript.parser.module import find_draft, ir_module


def module_attrs(attrs: Mapping[str, Any], allow_overwrite: bool = False) -> None:
    """Attributes of the module. A second call needs `allow_overwrite`, and replaces those of the first."""
    draft = find_draft()
    if draft is None:
        return
    if draft.attrs and not allow_overwrite:
        fail("the attributes of the module are set twice", None, "join both calls, or pass allow_overwrite=True")
    draft.attrs = {k: convert_attr(v) for k, v in attrs.items()}


def module_get_attrs() -> dict[str, Any]:
    """The attributes set so far."""
    draft = find_draft()
    return {} if draft is None else dict(draft.attrs)


def module_set_attr(key: str, value: Any, allow_overwrite: bool = False) -> None:
    """Set one attribute of the module."""
    draft = find_draft()
    if draft is None:
        return
    if key in draft.attrs and not allow_overwrite:
        fail(f"the attribute {key!r} of the module is set twice", None, "pass allow_overwrite=True to replace it")
    draft.attrs[key] = convert_attr(value)


def module_get_attr(key: str) -> Any:
    """An attribute set before, or None."""
    return module_get_attrs().get(key)


def module_global_infos(infos: Mapping[str, Any]) -> None:
    """Global information of the module, kept as given."""
    draft = find_draft()
    if draft is None:
        return
    if draft.global_infos:
        fail("the global information of the module is set twice", None, "join both calls")
    draft.global_infos = {k: convert_attr(v) for k, v in infos.items()}


__all__ = [
    "GlobalVar",
    "IRModule",
    "Range",
    "ir_module",
    "module_attrs",
    "module_get_attr",
    "module_get_attrs",
    "module_global_infos",
    "module_set_attr",
]
