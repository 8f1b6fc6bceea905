# The face of `ir.py` for checkers and editors.
from collections.abc import Callable
from typing import Any, overload

from tscript.ir.expr import GlobalVar as GlobalVar
from tscript.ir.expr import Range as Range
from tscript.ir.function import IRModule as IRModule
from tscript.parser.module_api import module_attrs as module_attrs
from tscript.parser.module_api import module_get_attr as module_get_attr
from tscript.parser.module_api import module_get_attrs as module_get_attrs
from tscript.parser.module_api import module_global_infos as module_global_infos
from tscript.parser.module_api import module_set_attr as module_set_attr

# Inside its class, a kernel calls another one as an attribute of the class: `Module.other(x)`.
class _ScriptModule(IRModule):
    def __getattr__(self, name: str) -> Any: ...

@overload
def ir_module(cls: type, /) -> _ScriptModule: ...
@overload
def ir_module(*, check_well_formed: bool = True) -> Callable[[type], _ScriptModule]: ...
