"""Ready schedules for CPUs: operators that are recognised by their structure, and a default one for the rest.

Each is written with the primitives of `tscript.tir.Schedule` only. `schedule(func, target)` gives a schedule whose
trace can be printed, altered and replayed.
"""

from __future__ import annotations

from tscript.library.choice import recognise, schedule

__all__ = ["recognise", "schedule"]
