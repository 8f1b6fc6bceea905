"""`Schedule`: a program, and the steps that transform it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tscript.equivalence.arguments import require_sizes
from tscript.ir.expr import GlobalVar, PrimExpr
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.json_io import LoadError
from tscript.ir.stmt import Block, For
from tscript.printer.changes import changes_text, show_changes
from tscript.schedule.core import ScheduleCore
from tscript.schedule.history import Checkpoint, last_changes, restore
from tscript.schedule.instruction import Instruction
from tscript.schedule.numeric import NumericCheck, Verification
from tscript.schedule.primitive import run_instruction
from tscript.schedule.primitives import add_unit_loop as add_unit_loop_
from tscript.schedule.primitives import annotate as annotate_
from tscript.schedule.primitives import annotate_buffer_access as annotate_buffer_access_
from tscript.schedule.primitives import bind as bind_
from tscript.schedule.primitives import blockize as blockize_
from tscript.schedule.primitives import cache_index as cache_index_
from tscript.schedule.primitives import cache_inplace as cache_inplace_
from tscript.schedule.primitives import cache_read as cache_read_
from tscript.schedule.primitives import cache_write as cache_write_
from tscript.schedule.primitives import compute_at as compute_at_
from tscript.schedule.primitives import compute_inline as compute_inline_
from tscript.schedule.primitives import decompose_padding as decompose_padding_
from tscript.schedule.primitives import decompose_reduction as decompose_reduction_
from tscript.schedule.primitives import enable_checks as enable_checks_
from tscript.schedule.primitives import enter_postproc as enter_postproc_
from tscript.schedule.primitives import fuse as fuse_
from tscript.schedule.primitives import fuse_reduction_epilogue as fuse_reduction_epilogue_
from tscript.schedule.primitives import loop_partition as loop_partition_
from tscript.schedule.primitives import merge as merge_
from tscript.schedule.primitives import pad_einsum as pad_einsum_
from tscript.schedule.primitives import parallel as parallel_
from tscript.schedule.primitives import queries, sampling
from tscript.schedule.primitives import read_at as read_at_
from tscript.schedule.primitives import reindex as reindex_
from tscript.schedule.primitives import reindex_cache_read as reindex_cache_read_
from tscript.schedule.primitives import reindex_cache_write as reindex_cache_write_
from tscript.schedule.primitives import reorder as reorder_
from tscript.schedule.primitives import reorder_block_iter_var as reorder_block_iter_var_
from tscript.schedule.primitives import reverse_compute_at as reverse_compute_at_
from tscript.schedule.primitives import reverse_compute_inline as reverse_compute_inline_
from tscript.schedule.primitives import rfactor as rfactor_
from tscript.schedule.primitives import rolling_buffer as rolling_buffer_
from tscript.schedule.primitives import sample_compute_location as sample_compute_location_
from tscript.schedule.primitives import set_axis_separator as set_axis_separator_
from tscript.schedule.primitives import set_scope as set_scope_
from tscript.schedule.primitives import split as split_
from tscript.schedule.primitives import storage_align as storage_align_
from tscript.schedule.primitives import tensorize as tensorize_
from tscript.schedule.primitives import transform_block_layout as transform_block_layout_
from tscript.schedule.primitives import transform_layout as transform_layout_
from tscript.schedule.primitives import unroll as unroll_
from tscript.schedule.primitives import unsafe_hide_buffer_access as unsafe_hide_buffer_access_
from tscript.schedule.primitives import unsafe_set_dtype as unsafe_set_dtype_
from tscript.schedule.primitives import vectorize as vectorize_
from tscript.schedule.primitives import write_at as write_at_
from tscript.schedule.rv import RV, BlockRV, LoopRV
from tscript.schedule.saved import read_file, saved_text
from tscript.schedule.sref import StmtSRef
from tscript.schedule.stepping import Stepping, Unchecked
from tscript.schedule.trace import Trace
from tscript.schedule.verify import verified
from tscript.support.errors import TScriptError

_MASKS = {"none": 0, "all": 3}
_LEVELS = ("detail", "fast", "none")
_CHECKS = (None, "numeric", "none")
_MADE_WITHOUT_CHECKS = "the schedule was made with enable_check=False"
_SHOWN = {"func_working_on", "state", "trace"}


class Schedule(ScheduleCore):
    """A module under transformation. Each primitive checks that it may be applied, changes the program, and is
    recorded in `trace`.

    `mod` is a module or a function; `seed` makes sampling repeatable (1 to 2147483647). `debug_mask` "all"
    checks the bookkeeping after every step; `error_render_level` is "detail", "fast" or "none".

    With `check="numeric"`, the program is run on random arguments after each step and compared with how it was: a step
    that changes the result is refused. `enable_check=False` leaves out the checks that a step keeps the meaning of the
    program, which the trace tells (see `enable_checks`), and has steps compared, unless `check="none"`.

    >>> from tscript.testing.workloads import matmul
    >>> sch = Schedule(matmul(128, 128, 128).func, check="numeric")
    >>> i, j, k = sch.get_loops("C")
    >>> sch.reorder(k, i)
    >>> Schedule(matmul(8, 8, 8).func, check="sometimes")
    Traceback (most recent call last):
    ...
    ValueError: check is None, 'numeric' or 'none', not 'sometimes'
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
        check: str | None = None,
    ) -> None:
        super().__init__(_as_module(mod), _checked_seed(seed), _mask(debug_mask), _level(error_render_level), True)
        self.compares_always = _check(check) == "numeric"
        if self.trace is not None:
            self.trace.start = partial(Schedule, self.mod)
        if not enable_check:
            self.enable_checks(False, _MADE_WITHOUT_CHECKS, every_step=check != "none")
            self.history.clear()

    @staticmethod
    def _create_non_traced(mod: IRModule | PrimFunc, **options: Any) -> Schedule:
        """A schedule that records nothing: its `trace` is None."""
        sch = Schedule(mod, **options)
        sch.trace = None
        return sch

    @property
    def mod(self) -> IRModule:
        """The program as it is now."""
        now = self.state.mod
        return now.replace(functions={**now.functions})

    def work_on(self, func_name: str) -> None:
        """Choose the function that names of blocks and loops refer to."""
        self.func_working_on = self.state.mod.get_global_var(func_name)

    def copy(self) -> Schedule:
        """An independent schedule of the same program; handles are valid in both."""
        other = Schedule(
            self.mod,
            debug_mask=self.state.debug_mask,
            error_render_level=self.error_render_level,
        )
        other.enable_check, other.original = self._enable_check, self.original
        # No context is open for the copy: it turns its checks on by `enable_checks`.
        other.unverified = tuple(replace(u, context="") for u in self.unverified)
        other.numeric, other.compares_always = self.numeric.copy(), self.compares_always
        other.state, mapping = self.state.copy()
        other.symbols = {rv: mapping.get(v, v) if isinstance(v, StmtSRef) else v for rv, v in self.symbols.items()}
        other.trace = None if self.trace is None else self.trace.copy()
        other.rng.seed(self.fork_seed())
        name = self.func_working_on
        other.func_working_on = name if name is None else other.state.mod.get_global_var(name.name_hint)
        return other

    def seed(self, seed: int) -> None:
        """Start the random numbers anew; -1 takes a seed from the operating system."""
        self.rng.seed(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule; this one's random numbers move on."""
        return self.rng.fork()

    def get(self, rand_var_or_sref: RV | PrimExpr | StmtSRef) -> Block | For | int | None:
        """The block, loop or number that a handle stands for now. ValueError for one that is gone."""
        if isinstance(rand_var_or_sref, StmtSRef):
            return rand_var_or_sref.stmt
        if isinstance(rand_var_or_sref, (BlockRV, LoopRV)):
            return self.block_or_loop(rand_var_or_sref).stmt
        return self.integer(rand_var_or_sref)

    def get_sref(self, rand_var_or_stmt: BlockRV | LoopRV | Block | For) -> StmtSRef:
        """The reference behind a handle, or of a statement of the program."""
        if isinstance(rand_var_or_stmt, (Block, For)):
            found = self.state.stmt2ref.get(rand_var_or_stmt)
            if found is None:
                raise ValueError("the statement is not part of this schedule's program")
            return found
        return self.block_or_loop(rand_var_or_stmt)

    def remove_rv(self, rand_var: RV) -> None:
        """Forget a handle. IndexError for one that is not known."""
        if rand_var not in self.symbols:
            raise IndexError(f"{rand_var!r} is no handle of this schedule")
        del self.symbols[rand_var]

    def run_instruction(
        self, inst: Instruction, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
    ) -> list[Any]:
        """Carry out a recorded step with other inputs; its outputs."""
        if inst.kind.method == "enable_checks" and _MADE_WITHOUT_CHECKS in attrs and self.unverified:
            # This schedule was made without checks as well, and says so already.
            return []
        with Stepping(self, inst.kind.method, not inst.kind.is_pure):
            return run_instruction(self, inst, inputs, attrs, decision)

    def can_decompose_padding(self, block: BlockRV | str, loop: LoopRV | str) -> bool:
        """Whether `decompose_padding` would be accepted; nothing is recorded.

        >>> from tscript.testing.workloads import conv2d
        >>> sch = Schedule(conv2d(6, 3, 4).func)
        >>> sch.can_decompose_padding(sch.get_block("pad"), sch.get_loops("pad")[0])
        True
        >>> sch.can_decompose_padding(sch.get_block("conv"), sch.get_loops("conv")[0])
        False
        """
        return decompose_padding_.can_decompose_padding(self, block, loop)

    # -- files ------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the program that the schedule began with, and its trace, to a file.

        `load` reads it, and `python -m tscript trace` shows its steps. Raises ValueError for a schedule that records
        nothing, TypeError for an annotation that has no text form, OSError where the file cannot be written.
        """
        if self.trace is None or self.trace.start is None:
            raise ValueError("the schedule records no trace, so there is nothing to save")
        Path(path).write_text(saved_text(self.trace.start().mod, self.trace, self._enable_check), encoding="utf-8")

    @staticmethod
    def load(path: str | Path, *, seed: int | None = None) -> Schedule:
        """The schedule that `save` wrote: its steps are done again, with their decisions.

        Raises OSError for a file that cannot be read, LoadError (a ValueError) for one that is damaged or something
        else, ScheduleError for a step that is refused.

        >>> import tempfile
        >>> from tscript.testing.workloads import matmul
        >>> sch = Schedule(matmul(8, 8, 8).func)
        >>> sch.parallel(sch.get_loops("C")[0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sch.save(f"{folder}/matmul.json")
        ...     again = Schedule.load(f"{folder}/matmul.json")
        >>> again.mod.script() == sch.mod.script()
        True
        """
        saved = read_file(path)
        sch = Schedule(saved.workload, seed=seed, enable_check=saved.checks)
        try:
            Trace.apply_json_to_schedule(saved.trace, sch)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, TScriptError):
                raise
            done = 0 if sch.trace is None else len(sch.trace.insts)
            raise LoadError(f"{path}: line {done + 1} of its trace: {error}") from error
        return sch

    # -- meaning ----------------------------------------------------------------------------------

    def unchecked(self, reason: str) -> Unchecked:
        """A context in which steps are not refused for what they may do to the meaning of the program.

        When it ends, the program is run on random arguments and compared with the one from before: where something
        differs, or iterations that run at once meet, ScheduleError tells what, and the schedule goes back to before the
        context, as it does if a step fails. RaceWarning says where such iterations could not be told apart.
        The trace has it all; `undo` takes it back as one step. Raises ScheduleError without a reason.

        >>> from tscript.testing.workloads import matmul
        >>> sch = Schedule(matmul(8, 8, 8).func)
        >>> i, j, k = sch.get_loops("C")
        >>> with sch.unchecked("the order of the sums does not matter"):
        ...     sch.reorder(k, i)
        >>> [line.split("(")[0] for line in sch.trace.as_python()[-3:]]
        ['sch.enable_checks', 'sch.reorder', 'sch.enable_checks']
        """
        return Unchecked(self, reason, self.enable_checks)

    def verify(
        self,
        *,
        seed: int = 0,
        sizes: Mapping[str, int] | None = None,
        special_values: bool = False,
        whole: bool = False,
    ) -> Verification:
        """Replay the trace step by step on the program that the schedule was made of, and name the first step that
        changes what is computed. Options are as for `tscript.compare`.

        Within steps that were not checked one by one, only what is left in the end counts. Raises ValueError for a
        schedule without a trace and for a name in `sizes` that is none, and the fault of a program that fails itself.

        >>> from tscript.testing.workloads import matmul
        >>> sch = Schedule(matmul(8, 8, 8).func)
        >>> sch.parallel(sch.get_loops("C")[0])
        >>> sch.verify().show()
        no step of 3 steps changed the result
        """
        require_sizes(self.original.values(), sizes)
        fresh = Schedule(IRModule({**self.original}), check="none")
        fresh.numeric = NumericCheck(enabled=False)
        return verified(
            self.trace, fresh, NumericCheck(seed, dict(sizes or {}), special_values, whole, always_with_first=True)
        )

    # -- going back -------------------------------------------------------------------------------

    def undo(self, steps: int = 1) -> None:
        """Take back the last step, or the last `steps` steps, that changed the program or its trace for good.

        Program, trace, handles, and random numbers are exactly as they were before; queries and samples made since go
        along. Handles that were got since are dead. Raises ValueError where there are not so many steps.

        >>> import tscript
        >>> from tscript.script import tir as T
        >>> @T.prim_func
        ... def twice(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        ...     for i in range(8):
        ...         with T.block("B"):
        ...             v = T.axis.spatial(8, i)
        ...             B[v] = A[v] * T.float32(2)
        >>> sch = Schedule(twice)
        >>> (i,) = sch.get_loops("B")
        >>> outer, inner = sch.split(i, [2, 4])
        >>> sch.undo()
        >>> sch.get(i).extent
        8
        >>> sch.get(outer)
        Traceback (most recent call last):
        ...
        ValueError: the block or loop no longer exists: the step that gave it was undone
        """
        place = last_changes(self, steps)
        restore(self, self.history[place].before)
        del self.history[place:]

    def checkpoint(self) -> Checkpoint:
        """This moment, to come back to with `restore()`; as a context, one that is come back to if the block fails.

        >>> import tscript
        >>> from tscript.testing.workloads import matmul
        >>> sch = Schedule(matmul(8, 8, 8).func)
        >>> here = sch.checkpoint()
        >>> sch.parallel(sch.get_loops("C")[0])
        >>> here.restore()
        >>> len(sch.trace.insts)
        0
        """
        return Checkpoint(self)

    def changes(self, since: Checkpoint | None = None) -> str:
        """The program with the lines marked that the last step changed, or all steps since a checkpoint."""
        return changes_text(self._program_at(since).script(), self.mod.script())

    def _program_at(self, since: Checkpoint | None) -> IRModule:
        then = since.then if since is not None else self.history[last_changes(self, 1)].before
        return then.module(self.state.mod)

    def show(self, *args: Any, diff: bool = False, since: Checkpoint | None = None, **options: Any) -> None:
        """Print the program, then the trace.

        With `diff`, the program with the lines marked that the last step changed, or all steps since the checkpoint
        `since`: in colours in a terminal, as markup in a notebook.
        """
        if diff or since is not None:
            show_changes(self._program_at(since).script(), self.mod.script())
            return
        self.mod.show(*args, **options)
        if self.trace is not None:
            given = dict(zip(("style", "black_format"), args, strict=False)) | options
            self.trace.show(given.get("style"), given.get("black_format"))

    def __dir__(self) -> list[str]:
        """What completion offers: what users call, and not what steps are made of."""
        inner = {*vars(ScheduleCore), *vars(self), "run_instruction"} - _SHOWN
        return [n for n in super().__dir__() if n not in inner or n.startswith("__")]

    def _repr_html_(self) -> str:
        return self.mod._repr_html_()  # pyright: ignore[reportPrivateUsage]

    # -- primitives -------------------------------------------------------------------------------

    get_block = queries.get_block
    get_loops = queries.get_loops
    get_child_blocks = queries.get_child_blocks
    get_producers = queries.get_producers
    get_consumers = queries.get_consumers
    get_output_blocks = queries.get_output_blocks

    sample_categorical = sampling.sample_categorical
    sample_perfect_tile = sampling.sample_perfect_tile
    sample_partitioned_tile = sampling.sample_partitioned_tile
    sample_compute_location = sample_compute_location_.sample_compute_location

    split = split_.split
    fuse = fuse_.fuse
    merge = merge_.merge
    loop_partition = loop_partition_.loop_partition
    reorder = reorder_.reorder
    parallel = parallel_.parallel
    vectorize = vectorize_.vectorize
    bind = bind_.bind
    unroll = unroll_.unroll
    add_unit_loop = add_unit_loop_.add_unit_loop
    reorder_block_iter_var = reorder_block_iter_var_.reorder_block_iter_var
    annotate = annotate_.annotate
    unannotate = annotate_.unannotate
    enter_postproc = enter_postproc_.enter_postproc
    enable_checks = enable_checks_.enable_checks
    compute_at = compute_at_.compute_at
    reverse_compute_at = reverse_compute_at_.reverse_compute_at
    decompose_reduction = decompose_reduction_.decompose_reduction
    rfactor = rfactor_.rfactor
    decompose_padding = decompose_padding_.decompose_padding
    pad_einsum = pad_einsum_.pad_einsum
    fuse_reduction_epilogue = fuse_reduction_epilogue_.fuse_reduction_epilogue
    cache_read = cache_read_.cache_read
    cache_write = cache_write_.cache_write
    cache_index = cache_index_.cache_index
    cache_inplace = cache_inplace_.cache_inplace
    read_at = read_at_.read_at
    write_at = write_at_.write_at
    rolling_buffer = rolling_buffer_.rolling_buffer
    set_scope = set_scope_.set_scope
    storage_align = storage_align_.storage_align
    transform_layout = transform_layout_.transform_layout
    transform_block_layout = transform_block_layout_.transform_block_layout
    set_axis_separator = set_axis_separator_.set_axis_separator
    unsafe_set_dtype = unsafe_set_dtype_.unsafe_set_dtype
    unsafe_hide_buffer_access = unsafe_hide_buffer_access_.unsafe_hide_buffer_access
    annotate_buffer_access = annotate_buffer_access_.annotate_buffer_access
    reindex = reindex_.reindex
    reindex_cache_read = reindex_cache_read_.reindex_cache_read
    reindex_cache_write = reindex_cache_write_.reindex_cache_write
    blockize = blockize_.blockize
    tensorize = tensorize_.tensorize
    compute_inline = compute_inline_.compute_inline
    reverse_compute_inline = reverse_compute_inline_.reverse_compute_inline

    # The newer spelling.
    get_sblock = queries.get_block
    reorder_sblock_iter_var = reorder_block_iter_var_.reorder_block_iter_var


def _as_module(mod: IRModule | PrimFunc) -> IRModule:
    if isinstance(mod, PrimFunc):
        return IRModule({"main": mod})
    if isinstance(mod, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        return mod
    raise TypeError(f"a schedule is made of a function or a module, not of {mod!r}")


def _checked_seed(seed: int | None) -> int:
    if seed is None:
        return -1
    if isinstance(seed, bool) or not isinstance(seed, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a seed is an integer, not {seed!r}")
    if not 1 <= seed <= 2147483647:
        raise ValueError(f"a seed lies between 1 and 2147483647, unlike {seed}")
    return seed


def _mask(mask: str | int) -> int:
    if isinstance(mask, str):
        if mask not in _MASKS:
            raise ValueError(f"debug_mask is 'none', 'all' or a number, not {mask!r}")
        return _MASKS[mask]
    if not isinstance(mask, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"debug_mask is 'none', 'all' or a number, not {mask!r}")
    return int(mask)


def _check(check: str | None) -> str | None:
    if check not in _CHECKS:
        raise ValueError(f"check is None, 'numeric' or 'none', not {check!r}")
    return check


def _level(level: str) -> str:
    if level not in _LEVELS:
        raise ValueError(f"error_render_level is 'detail', 'fast' or 'none', not {level!r}")
    return level


__all__ = ["GlobalVar", "Schedule"]
