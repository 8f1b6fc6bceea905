"""Questions about programs that change nothing."""

from __future__ import annotations

from tscript.analysis.access_regions import detect_regions

__all__ = ["detect_regions"]
