"""Tags by name: register one, list all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tscript.target.config import read_config
from tscript.target.tags import TAGS
from tscript.target.target import Target


def register_tag(name: str, config: Mapping[str, Any] | str | Target, override: bool = False) -> Target:
    """Let `Target(name)` mean the target that `config` describes; gives that target.

    Raises ValueError for a name that is taken, unless `override`, and for a bad configuration.

    >>> register_tag("example/quad", {"kind": "llvm", "num-cores": 4}, override=True).tag
    'example/quad'
    >>> Target("example/quad -mcpu=znver4").attrs["num-cores"]
    4
    """
    if not name or any(c.isspace() for c in name) or name.startswith(("-", "{")):
        raise ValueError(f"{name!r} cannot name a target; a tag is one word, such as 'vendor/model'")
    if name in Target.list_kinds():
        raise ValueError(f"{name!r} is the name of a target kind; a tag is written like 'vendor/model'")
    if name in TAGS and not override:
        raise ValueError(f"the tag {name!r} is taken; pass override=True to replace it")
    whole = config.export() if isinstance(config, Target) else read_config(config)
    made = Target({**whole, "tag": name})
    TAGS[name] = whole
    return made


def list_tags() -> dict[str, Target]:
    """The target of every tag.

    >>> list_tags()["nvidia/nvidia-a100"].arch
    'sm_80'
    """
    return {name: Target(name) for name in TAGS}


__all__ = ["list_tags", "register_tag"]
