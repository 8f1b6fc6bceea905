"""`I`, the language of modules: `from tscript.script import ir as I`."""

# ruff: noqa: F403

from __future__ import annotations

from tscript.parser.module_api import *
