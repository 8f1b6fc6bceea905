"""What tests of the printer share."""

from __future__ import annotations

import tscript.printer

assert tscript.printer.script  # nodes print themselves once the printer is loaded
