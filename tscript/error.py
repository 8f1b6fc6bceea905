"""Every exception and warning of tscript by name, and the names TVM gives to these."""

from __future__ import annotations

from tscript.support.errors import (
    BuildError,
    CallError,
    CheckError,
    CorruptLibraryError,
    InternalError,
    InterpError,
    LibraryError,
    LoweringError,
    RaceWarning,
    ScheduleError,
    ScriptError,
    TScriptError,
    TuneError,
    VerifyError,
)

DiagnosticError = ScriptError
TVMError = TScriptError

__all__ = [
    "BuildError", "CallError", "CheckError", "CorruptLibraryError", "DiagnosticError", "InternalError", "InterpError",
    "LibraryError", "LoweringError", "RaceWarning", "ScheduleError", "ScriptError", "TScriptError", "TVMError",
    "TuneError", "VerifyError",
]  # fmt: skip
