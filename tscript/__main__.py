"""`python -m tscript`."""

from __future__ import annotations

from tscript.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
