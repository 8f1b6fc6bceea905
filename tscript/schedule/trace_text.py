"""A trace as Python text and as JSON, and back from JSON."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tscript.ir import expr as ex
from tscript.ir.base import FrozenDict
from tscript.ir.construct import const
from tscript.ir.expr import FloatImm, IntImm, PrimExpr, StringImm, Var
from tscript.ir.functor import substitute
from tscript.ir.index_map import IndexMap
from tscript.ir.json_io import load_json, save_json
from tscript.schedule.instruction import Arg, Instruction, InstructionKind, Outputs, Role
from tscript.schedule.rv import BlockRV, LoopRV

Names = dict[Any, str]


def name_outputs(instructions: Sequence[Instruction]) -> Names:
    """A name for each handle: `b`, `l` or `v` with one running number; `_` for a number that is left open."""
    names: Names = {}
    count = 0
    for inst in instructions:
        for out in inst.outputs:
            if out is not None:
                prefix = "b" if isinstance(out, BlockRV) else "l" if isinstance(out, LoopRV) else "v"
                names[out] = f"{prefix}{count}"
            count += 1
    return names


# -- Python ---------------------------------------------------------------------------------------


def instruction_text(inst: Instruction, names: Names, decision: Any) -> str:
    """One line: `l1, l2 = sch.split(loop=l0, ...)`."""
    values = inst.kind.unpack(inst.inputs, inst.attrs)
    parts: list[str] = []
    for a in inst.kind.args:
        value = values[a.name]
        if a.role is Role.INPUTS and not a.is_list:
            parts.extend(value_text(v, names) for v in value)
            continue
        if not a.if_empty and not value:
            continue
        text = _arg_text(a, value, names)
        parts.append(f"{a.name}={text}" if a.keyword else text)
    if decision is not None:
        parts.append(f"decision={value_text(decision, names)}")
    left = _outputs_text(inst, names)
    return f"{left}sch.{inst.kind.method}({', '.join(parts)})"


def _arg_text(arg: Arg, value: Any, names: Names) -> str:
    if arg.is_flag:
        return _flag_text(value)
    if arg.is_access:
        return f"({_quoted(value[0])}, {value[1]})"
    return ranges_text(value, names) if arg.is_ranges else value_text(value, names)


def _outputs_text(inst: Instruction, names: Names) -> str:
    if inst.kind.outputs is Outputs.NONE or not inst.outputs:
        return ""
    out = [names[o] if o is not None else "_" for o in inst.outputs]
    if inst.kind.outputs is Outputs.ONE:
        return f"{out[0]} = "
    return f"{', '.join(out)}{',' if len(out) == 1 else ''} = "


def _flag_text(value: Any) -> str:
    return "True" if value else "False"


def value_text(value: Any, names: Names) -> str:
    """An argument as Python text that means it."""
    if value is None:
        return "None"
    if isinstance(value, IndexMap):
        return index_map_text(value, names)
    if isinstance(value, (BlockRV, LoopRV, Var)) and value in names:
        return names[value]
    if isinstance(value, bool):
        return _flag_text(value)
    if isinstance(value, (int, IntImm)):
        # A bool annotation is kept, and printed, as the number it is.
        return str(int(value))
    if isinstance(value, (float, FloatImm)):
        return _float_text(float(value))
    if isinstance(value, (str, StringImm)):
        return _quoted(value if isinstance(value, str) else value.value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(value_text(v, names) for v in value) + "]"  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mapping):
        pairs: list[tuple[str, Any]] = sorted(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return "{" + ", ".join(f"{_quoted(k)}: {value_text(v, names)}" for k, v in pairs) + "}"
    if isinstance(value, PrimExpr):
        return str(substitute(value, {v: Var(n, v.dtype) for v, n in names.items() if isinstance(v, Var)}))
    return str(value)


def index_map_text(index_map: IndexMap, names: Names) -> str:
    """A map as the function that it was made from; where an inverse was given, as the call that takes both."""
    text = f"{_parameters(index_map, names)}({''.join(f'{e}, ' for e in _results(index_map, names)).rstrip()})"
    if index_map.inverse_index_map is None:
        return text
    back = index_map_text(index_map.inverse_index_map, names)
    return f"tvm.tir.IndexMap.from_func({text}, inverse_index_map={back})"


def ranges_text(ranges: IndexMap, names: Names) -> str:
    """A map to the two ends of each dimension, as a function that gives pairs."""
    ends = _results(ranges, names)
    pairs = ", ".join(f"({ends[k]}, {ends[k + 1]})" for k in range(0, len(ends), 2))
    return f"{_parameters(ranges, names)}[{pairs}]"


def unique_names(index_map: IndexMap, handles: Names | None = None) -> list[str]:
    """A name for each index: its own, made an identifier that is no other's nor means anything else in a trace.

    `handles` are the names of the sampled numbers that the map may use.
    """
    taken: dict[str, None] = dict.fromkeys(("T", "sch", "tir", "tvm"))
    taken.update({handles[v]: None for v in index_map.free_variables() if handles and v in handles})
    names: list[str] = []
    for v in index_map.initial_indices:
        base = re.sub(r"^(?=\d)|\W", "_", v.name) or "i"
        name, count = base, 0
        while name in taken or keyword.iskeyword(name):
            count += 1
            name = f"{base}_{count}"
        taken[name] = None
        names.append(name)
    return names


def _parameters(index_map: IndexMap, names: Names) -> str:
    found = ", ".join(unique_names(index_map, names))
    return f"lambda {found}: " if found else "lambda: "


def _results(index_map: IndexMap, names: Names) -> list[str]:
    """The results as text, each index called by its unique name, and sampled numbers as everywhere in the trace."""
    pairs = zip(index_map.initial_indices, unique_names(index_map, names), strict=True)
    named: dict[Var, PrimExpr] = {v: v if v.name == n else Var(n, v.dtype) for v, n in pairs}
    named.update({v: Var(names[v], v.dtype) for v in index_map.free_variables() if v in names})
    return [str(substitute(e, named)) for e in index_map.final_indices]


def _float_text(value: float) -> str:
    text = f"{value:.17g}"
    return text if re.search(r"[.en]", text) else text + ".0"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# -- JSON -----------------------------------------------------------------------------------------


def instruction_json(inst: Instruction, names: Names) -> list[Any]:
    """`[kind, inputs, attrs, outputs]`."""
    values = inst.kind.unpack(inst.inputs, inst.attrs)
    as_json = {
        a.name: _attr_json(values[a.name], a) if a.role is Role.ATTR else _input_json(values[a.name], a, names)
        for a in inst.kind.args
    }
    inputs, attrs = inst.kind.pack(as_json)
    return [inst.kind.name, inputs, attrs, [names[o] if o is not None else "_" for o in inst.outputs]]


def _input_json(value: Any, arg: Arg, names: Names) -> Any:
    if arg.role is Role.INPUTS:
        return [input_value_json(v, names) for v in value]
    return input_value_json(value, names)


def input_value_json(value: Any, names: Names) -> Any:
    """An input: handles are their names, text has quotes of its own, a missing one is "None"."""
    if value is None:
        return "None"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return [input_value_json(v, names) for v in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (BlockRV, LoopRV, Var)):
        return names[value]
    if isinstance(value, IndexMap):
        free = value.free_variables()
        named = value.with_values({v: Var(names[v], v.dtype) for v in free if v in names}) if free else value
        return save_json(named, spans=False)
    if isinstance(value, PrimExpr) and not isinstance(value, (IntImm, FloatImm, StringImm)):
        return value_text(value, names)
    return _attr_json(value, None)


def _attr_json(value: Any, arg: Arg | None) -> Any:
    if arg is not None and arg.is_flag:
        return int(bool(value))
    if isinstance(value, IndexMap):
        return save_json(value, spans=False)
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, FloatImm):
        return value.value
    if isinstance(value, StringImm):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_attr_json(v, None) for v in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mapping):
        return {str(k): _attr_json(v, None) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value


def input_from_json(value: Any, handles: Mapping[str, Any]) -> Any:
    """An input as it was recorded. ValueError for the name of a handle that nothing gives."""
    if isinstance(value, str):
        if len(value) >= 2 and value[0] == value[-1] == '"':
            return value[1:-1]
        if value == "None":
            return None
        if value.startswith("{"):
            return _saved_input(value, handles)
        if value in handles:
            return handles[value]
        return _expression(value, handles)
    if isinstance(value, list):
        return [input_from_json(v, handles) for v in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return FrozenDict(value)  # pyright: ignore[reportUnknownArgumentType]
    return value


def _saved_input(text: str, handles: Mapping[str, Any]) -> Any:
    """A saved program; what an index map uses besides its indices is a sampled number, known by its name."""
    found = load_json(text)
    free = found.free_variables() if isinstance(found, IndexMap) else []
    for v in free:
        if not isinstance(handles.get(v.name), Var):
            raise ValueError(f"an index map of the trace refers to {v.name!r}, which nothing before it gives")
    return found.with_values({v: handles[v.name] for v in free}) if free else found


def attrs_from_json(kind: InstructionKind, attrs: Sequence[Any]) -> list[Any]:
    """Constants as they were recorded. ValueError for text that is no saved program where one is due."""
    places: list[Arg] = [a for a in kind.attr_args for _ in range(2 if a.is_access else 1)]
    saved = [a.is_saved for a in places] + [False] * max(0, len(attrs) - len(places))
    return [load_json(v) if s and isinstance(v, str) else v for v, s in zip(attrs, saved, strict=False)]


def _expression(text: str, handles: Mapping[str, Any]) -> PrimExpr:
    """Arithmetic on sampled integers, as `v0 * 4 + v1`, read by our own walk: nothing is evaluated."""
    import_error = f"the trace refers to {text!r}, which nothing before it gives"
    tokens = re.findall(r"T\.(?:min|max)\b|[A-Za-z_]\w*|\d+|//|[-+*%(),]", text)
    if "".join(tokens) != re.sub(r"\s", "", text) or not tokens:
        raise ValueError(import_error)
    reader = _Reader(tokens, handles, import_error)
    result = reader.sum()
    if reader.tokens:
        raise ValueError(import_error)
    return result


_EXTREMES: dict[str, type[ex.Min] | type[ex.Max]] = {"T.min": ex.Min, "T.max": ex.Max}


class _Reader:
    """Recursive descent over `+ - * // %`, `T.min`, `T.max`, parentheses, numbers and handles."""

    def __init__(self, tokens: list[str], handles: Mapping[str, Any], error: str) -> None:
        self.tokens = tokens
        self.handles = handles
        self.error = error

    def sum(self) -> PrimExpr:
        """Terms joined by + and -."""
        result = self.product()
        while self.tokens and self.tokens[0] in "+-":
            sign = self.tokens.pop(0)
            right = self.product()
            result = ex.Add(result, right) if sign == "+" else ex.Sub(result, right)
        return result

    def product(self) -> PrimExpr:
        """Factors joined by * // and %."""
        result = self.atom()
        while self.tokens and self.tokens[0] in ("*", "//", "%"):
            sign = self.tokens.pop(0)
            right = self.atom()
            result = {"*": ex.Mul, "//": ex.FloorDiv, "%": ex.FloorMod}[sign](result, right)
        return result

    def atom(self) -> PrimExpr:
        """A number, a handle, the smaller or larger of two, or something in parentheses."""
        token = self.tokens.pop(0) if self.tokens else ""
        if token == "(":
            inner = self.sum()
            self.expect(")")
            return inner
        if token in _EXTREMES:
            self.expect("(")
            first = self.sum()
            self.expect(",")
            second = self.sum()
            self.expect(")")
            return _EXTREMES[token](first, second)
        if token == "-":
            return const(-int(self.tokens.pop(0))) if self.tokens and self.tokens[0].isdigit() else self.fail()
        if token.isdigit():
            return const(int(token))
        found = self.handles.get(token)
        return found if isinstance(found, Var) else self.fail()

    def expect(self, token: str) -> None:
        """Pass over a token."""
        if not self.tokens or self.tokens.pop(0) != token:
            self.fail()

    def fail(self) -> PrimExpr:
        """Refuse the text."""
        raise ValueError(self.error)


def kind_of_json(record: Any) -> tuple[InstructionKind, list[Any], list[Any], list[str]]:
    """The parts of an instruction record. ValueError for what is none."""
    if not (isinstance(record, list) and len(record) == 4 and isinstance(record[0], str)):  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError(f"an instruction is [kind, inputs, attributes, outputs], not {record!r}")
    parts = cast("list[Any]", record)
    if not all(isinstance(part, list) for part in parts[1:]):
        raise ValueError(f"the parts of instruction {parts[0]} are lists")
    kind = InstructionKind.get(parts[0])
    return kind, parts[1], attrs_from_json(kind, parts[2]), parts[3]
