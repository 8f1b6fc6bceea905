"""Programs to test with: random ones, and how to compare what they compute."""

from __future__ import annotations

from tscript.testing.random_program import Limits, random_arguments, random_program

__all__ = ["Limits", "random_arguments", "random_program"]
