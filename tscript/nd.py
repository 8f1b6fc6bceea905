"""Arrays: `array`, `empty`, `zeros`, `from_dlpack`, and their class `NDArray`."""

from tscript.runtime.ndarray import NDArray, array, empty, from_dlpack, zeros

__all__ = ["NDArray", "array", "empty", "from_dlpack", "zeros"]
