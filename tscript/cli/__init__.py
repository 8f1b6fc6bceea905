"""The command line: `python -m tscript`."""
