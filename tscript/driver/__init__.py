"""From programs to functions that run: lowering, code generation and the runtime, joined."""

from tscript.driver.compile import build, lower
from tscript.driver.executable import Executable, compile

__all__ = ["Executable", "build", "compile", "lower"]
