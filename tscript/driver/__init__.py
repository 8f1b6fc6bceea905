"""From programs to functions that run: lowering, code generation and the runtime, joined."""
