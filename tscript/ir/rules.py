"""The rules of well-formed programs, as data: what `verify_well_formed` checks and how it explains a breach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tscript.ir.base import Node
from tscript.support.errors import VerifyError
from tscript.support.span import Span


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its number, what it demands, why, and what to do about a breach."""

    number: str
    demand: str
    reason: str
    hint: str


def _rule(number: str, demand: str, reason: str, hint: str) -> tuple[str, Rule]:
    return number, Rule(number, demand, reason, hint)


RULES: Final[dict[str, Rule]] = dict(
    (
        _rule(
            "W01",
            "every variable is defined before it is used",
            "outside the scope of its definition a variable has no value",
            "use it inside the loop, block, let or function that defines it, or pass it as a parameter",
        ),
        _rule(
            "W02",
            "every variable is defined once, in all functions of a module together",
            "a variable stands for one value; with two definitions, rewriting one place would change the other",
            "make a new variable for the second definition",
        ),
        _rule(
            "W03",
            "a buffer is used only where it is declared, or where the pointer it views is in scope",
            "there is no memory behind it elsewhere",
            "make it a parameter, or use T.alloc_buffer, T.decl_buffer or T.match_buffer",
        ),
        _rule(
            "W04",
            "body, regions and local buffers of a block with axes do not use variables of loops around it",
            "the block must mean the same wherever its loops go; loops reach it through its axes only",
            "bind the loop variable to an axis, as in vi = T.axis.spatial(n, i), and use the axis",
        ),
        _rule(
            "W05",
            "an axis of a block has a domain of its own type, and its value is a single integer",
            "the axis counts in one type, to which its value is converted",
            "give the axis the wider type, as in T.axis.spatial(T.int64(n), i)",
        ),
        _rule(
            "W06",
            "a predicate is a single bool",
            "it decides whether one instance runs",
            "compare the value, as in x != 0",
        ),
        _rule(
            "W07",
            "a matched buffer views a region of its own element type, scope and shape",
            "it gives other names to elements that exist; it converts nothing",
            "make type, scope and extents of the match agree with the region (leading dimensions of extent 1 may go)",
        ),
        _rule(
            "W08",
            "a sequence holds two or more statements, none of which is a sequence",
            "one form for each program keeps comparisons simple",
            "join statements with tscript.ir.stmt.seq",
        ),
        _rule(
            "W09",
            "a loop variable is an integer of the type of the loop's start and extent",
            "the loop counts in one type",
            "cast start and extent to the type of the variable",
        ),
        _rule(
            "W10",
            "a loop names a hardware thread exactly if its kind is thread_binding",
            "the thread index is the loop variable",
            "use T.thread_binding(extent, thread='threadIdx.x')",
        ),
        _rule(
            "W11",
            "a hardware thread has one extent",
            "the launch has a single size in each direction",
            "launch the thread once, or with the same extent everywhere",
        ),
        _rule(
            "W12",
            "a load or store has one integer subscript for each dimension, and a store a value of the element type",
            "memory is not converted in passing",
            "cast the value, or correct the subscripts",
        ),
        _rule(
            "W13",
            "a call has as many arguments as its operator or function takes, and a called function is in the module",
            "what is missing cannot be run",
            "add the function to the module, or correct the arguments",
        ),
        _rule(
            "W14",
            "parameters are distinct, and buffers belong to parameters that are handles",
            "each argument arrives once, and a buffer arrives as a pointer",
            "map buffers to parameters of type handle",
        ),
        _rule(
            "W15",
            "a public function stands in its module under its global symbol, which no other function has",
            "it is found by that name",
            "rename the function, or change its global_symbol",
        ),
        _rule(
            "W16",
            "reductions and loads of tensors occur in tensor expressions only",
            "a kernel loads from buffers and reduces by loops",
            "turn the tensor expression into a kernel with te.create_prim_func",
        ),
        _rule(
            "W17",
            "attributes map texts to texts, numbers, nodes, arrays, values, and tuples or dicts of them",
            "other objects can be neither printed nor saved",
            "store a text or a number",
        ),
        _rule(
            "W18",
            "the condition of a branch, loop, assertion or allocation is a bool, and an assertion's message a text",
            "there are no truth values of numbers",
            "compare the value, as in x != 0",
        ),
        _rule(
            "W19",
            "memory is allocated for a pointer variable, with integer extents",
            "the variable is the address of the memory",
            "use a variable of pointer type",
        ),
        _rule(
            "W20",
            "functions, blocks and loops hold statements where statements belong",
            "only statements can be run one after the other",
            "wrap an expression in Evaluate",
        ),
    )
)


class WellFormedError(VerifyError):
    """A program that breaks a numbered rule.

    Attributes: `rule` (`"W01"`, ...; see `RULES`), `node` (what breaks it), `span` (where it was written, or None).
    """

    def __init__(self, rule: str, found: str, node: object, span: Span | None) -> None:
        super().__init__(f"[{rule}] {found}")
        self.rule = rule
        self.found = found
        self.node = node
        self.span = span

    def __str__(self) -> str:
        rule = RULES[self.rule]
        parts = [f"the program is not well-formed [{self.rule}]: {self.found}"]
        if self.span is not None:
            parts.append(f"  --> {self.span}")
            if text := self.span.render():
                parts.append(text)
        elif text := node_text(self.node):
            parts.append("  in: " + text)
        parts += [f"  rule {rule.number}: {rule.demand}; {rule.reason}", f"  try: {rule.hint}"]
        return "\n".join(parts)


def node_text(node: object) -> str:
    """The script of a node on a few lines, or an empty text where it cannot be printed."""
    if not isinstance(node, Node):
        return ""
    try:
        lines = node.script().strip().splitlines()
    except Exception:  # the program is broken: whatever the printer meets must not hide the error found
        return ""
    return "\n      ".join(lines if len(lines) <= 8 else [*lines[:8], "..."])


__all__ = ["RULES", "Rule", "WellFormedError", "node_text"]
