"""The version of the package, which `pyproject.toml` states too."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
