# For checkers and editors this is `tscript.script.tir`.
# ruff: noqa: F403
from tscript.script.tir import *
