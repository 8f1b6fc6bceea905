"""From programs to functions that run: lowering, code generation and the runtime, joined."""

from tscript.driver.compile import build, lower

__all__ = ["build", "lower"]
