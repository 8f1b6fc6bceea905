"""Benchmarks are modules beside each other in a folder that is no package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="session")
def benchmark_module():
    """Gives a benchmark by its name, as a module."""
    sys.path.insert(0, str(FOLDER))
    load: Callable[[str], ModuleType] = importlib.import_module
    yield load
    sys.path.remove(str(FOLDER))
