"""Settings that every test shares."""

from __future__ import annotations

import os

# Workers of pytest-xdist share the cores; a pool of BLAS threads in each would only have them wait for one another.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# What a test compiles is compiled, whatever an earlier run left.
os.environ["TSCRIPT_CACHE"] = "off"

pytest_plugins = ("tests.round_trips",)
