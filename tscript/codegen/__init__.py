"""Code generation: lowered functions to the text of a back end."""
