"""`T` for the functions of this package, which stands left of the public face of that name."""

# ruff: noqa: F403

from __future__ import annotations

from tscript.parser.dialect.arithmetic import *
from tscript.parser.dialect.calls import *
from tscript.parser.dialect.control import *
from tscript.parser.dialect.dtypes import *
from tscript.parser.dialect.gpu import *
from tscript.parser.dialect.math import *
from tscript.parser.dialect.memory import *
from tscript.parser.dialect.nodes import *
from tscript.parser.dialect.vectors import *
from tscript.parser.frames import *
