"""What databases in files share: records in memory are the truth, and files are brought in line with them."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tscript.ir.function import IRModule
from tscript.meta_schedule.database.codec import dump_line, parse_line
from tscript.meta_schedule.database.equality import ModuleEquality
from tscript.meta_schedule.database.record import TuningRecord, Workload, workload_module
from tscript.meta_schedule.database.shelf import ShelfDatabase


class Damaged(ValueError):
    """Something in the file of a database cannot be read."""


@dataclass
class Found:
    """Lines of a file: those of workloads by their keys, those of records in order, each with the place that names it
    in messages; what is already known to be unreadable; and copies of workloads by key, for those that are.
    """

    workloads: list[tuple[int, str, bytes]] = field(default_factory=list[tuple[int, str, bytes]])
    records: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    lost: list[str] = field(default_factory=list[str])
    spare: dict[int, bytes] = field(default_factory=dict[int, bytes])


class FileDatabase(ShelfDatabase):
    """A database in files that may fail, be damaged or vanish while it is open.

    A record that cannot be written stays in memory (`unkept` counts those) and is written with the next that can be.
    Where another hand damages, shortens, replaces or deletes the files, they are written anew from memory and from
    what of them can be read; what cannot is put aside. `lost` tells what that was. A warning tells of each.
    """

    path: Path

    def __init__(self, module_equality: str | ModuleEquality) -> None:
        super().__init__(module_equality)
        self.lost: list[str] = []
        """What could not be read of the files, and why."""
        self._unkept: list[tuple[int, TuningRecord | None]] = []
        # Keys are what the file calls workloads; it may have several for one.
        self._numbers: dict[int, int] = {}
        self._keys: dict[int, int] = {}
        self._trouble = ""
        self._amiss = ""  # what the files wait to be written anew for

    @property
    def unkept(self) -> int:
        """Records that are in memory alone, as they could not be written yet."""
        with self._lock:
            return sum(r is not None for _, r in self._unkept)

    def _open(self, repair: bool) -> None:
        with self._lock:
            if repair:
                self._restore("was damaged")
            else:
                self._learn_new()

    # -- what a form of files has to say ----------------------------------------------------------

    @abstractmethod
    def _damage(self) -> str:
        """What another hand did to the files, in words that follow their name; nothing if all is well."""

    @abstractmethod
    def _learn_new(self) -> None:
        """Learn what was added to the files. Raises Damaged for what cannot be read."""

    @abstractmethod
    def _keep_all(self) -> None:
        """Write what is in `_unkept`. Raises OSError where it cannot be written."""

    @abstractmethod
    def _restore(self, why: str) -> None:
        """Take in what can be read of the files with `_merge`, and write them anew if anything is amiss."""

    # -- learning ---------------------------------------------------------------------------------

    def _learn_workload(self, key: int, text: bytes) -> None:
        mod = workload_module(parse_line(text.decode())[0])
        number = self._shelf.find(mod)
        if number is None:
            number = len(self._shelf.workloads)
            self._shelf.add(mod)
        self._keys.setdefault(number, key)
        self._numbers[key] = number

    def _read_record(self, text: bytes) -> tuple[int, TuningRecord]:
        (key, values), extra = parse_line(text.decode())
        if type(key) is not int or key not in self._numbers:
            raise ValueError(f"it is a record of workload {key!r}, and there are {len(self._numbers)} that can be read")
        number = self._numbers[key]
        return number, TuningRecord.from_json(values, self._shelf.workloads[number], extra)

    def _merge(self, found: Found) -> tuple[int, int]:
        """Learn what is new of lines; how many records memory has that they lack, and how many lines cannot be read."""
        self._numbers, self._keys = {}, {}
        lost = list(found.lost)
        for key, place, text in found.workloads:
            try:
                self._learn_workload(key, text)
            except Exception as e:
                lost.append(f"{place}: {e}")
        self._learn_spare(found)
        known: dict[tuple[int, str], int] = {}
        for r in self._shelf.records:
            identity = self._identity(r)
            known[identity] = known.get(identity, 0) + 1
        for place, text in found.records:
            try:
                number, record = self._read_record(text)
            except Exception as e:
                lost.append(f"{place}: {e}")
                continue
            identity = self._identity(record)
            if known.get(identity):
                known[identity] -= 1
            else:
                self._shelf.put(number, record)
        self.lost += lost
        return sum(known.values()), len(lost)

    def _learn_spare(self, found: Found) -> None:
        """Take copies for workloads that are not there or damaged: without them, all their records would be lost."""
        for key, text in found.spare.items():
            if key not in self._numbers:
                try:
                    self._learn_workload(key, text)
                except Exception as e:
                    _log().debug("the copy of workload %d cannot be read either: %s", key, e)

    def _identity(self, record: TuningRecord) -> tuple[int, str]:
        number = self._shelf.number(record.workload)
        return -1 if number is None else number, dump_line([0, record.as_json()], record.extra())

    # -- ShelfDatabase ----------------------------------------------------------------------------

    def _catch_up(self) -> None:
        why = self._amiss or self._damage()
        if not why:
            try:
                self._learn_new()
            except Damaged as e:
                why = f"is damaged ({e})"
        if why:
            self._mend(why)

    def _mend(self, why: str) -> None:
        self._amiss = why  # stays where the files cannot be written now, for the next time
        self._restore(why)
        self._amiss = ""

    def _refresh(self) -> None:
        try:
            self._catch_up()
        except OSError as e:
            self._tell(e)

    def _commit(self, mod: IRModule | None, record: TuningRecord | None) -> Workload:
        if mod is not None:
            number = len(self._shelf.workloads)
            self._shelf.add(mod)
        else:
            assert record is not None
            known = self._shelf.number(record.workload)
            assert known is not None
            number = known
            self._shelf.put(number, record)
        self._unkept.append((number, record))
        try:
            try:
                self._keep_all()
            except Damaged as e:
                self._mend(f"is damaged ({e})")
        except OSError as e:
            self._tell(e)
        else:
            if self._trouble:
                _log().warning("%s can be written again, and has all records now", self.path)
            self._trouble = ""
        return self._shelf.workloads[number]

    def _tell(self, e: OSError) -> None:
        text = e.strerror or str(e)
        if text != self._trouble:
            _log().warning(
                "%s cannot be written (%s): records stay in memory, and are written with the next that can be",
                self.path,
                text,
            )
        self._trouble = text

    def _warn_restored(self, why: str, missing: int, damaged: int, aside: Path | None) -> None:
        text = f"{self.path} {why}"
        if missing:
            text += f"; {missing} of {len(self._shelf.records)} records were written anew from memory"
        if damaged:
            text += f"; {damaged} entries cannot be read"
        if aside is not None:
            text += f"; what was there is kept as {aside.name}"
        _log().warning("%s", text)


def _log() -> logging.Logger:
    return logging.getLogger("tscript.meta_schedule")


def readable(found: Found, equality: Any = "structural") -> tuple[int, list[str]]:
    """How many records of lines can be read, and what cannot."""
    reader = _Reader(equality)
    reader._merge(found)  # pyright: ignore[reportPrivateUsage]
    return len(reader), reader.lost


class _Reader(FileDatabase):
    """Memory without files."""

    def _damage(self) -> str:
        return ""

    def _learn_new(self) -> None:
        pass

    def _keep_all(self) -> None:
        self._unkept.clear()

    def _restore(self, why: str) -> None:
        del why
