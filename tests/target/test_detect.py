"""How many cores there are for a process: those it may run on, and the time that its control groups leave it."""

from __future__ import annotations

import os

import pytest

from tscript.target import detect


def _file(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("membership", "files", "share"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/cpu.max": "50000 100000\n", "a/b/cpu.max": "400000 100000\n"}, 0.5),
        ("0::/gone\n", {}, None),
        ("4:cpu,cpuacct:/d\n3:memory:/d\n", {"cpu,cpuacct/d/cpu.cfs_quota_us": "300000\n",
                                             "cpu,cpuacct/d/cpu.cfs_period_us": "100000\n"}, 3.0),
        ("4:cpu:/d\n", {"cpu/d/cpu.cfs_quota_us": "-1\n", "cpu/d/cpu.cfs_period_us": "100000\n"}, None),
        ("", {}, None),
    ],
)  # fmt: skip
def test_the_least_share_of_all_groups_counts(tmp_path, membership, files, share):
    _file(tmp_path / "cgroup", membership)
    (tmp_path / "fs").mkdir()
    for name, text in files.items():
        _file(tmp_path / "fs" / name, text)
    assert detect._cpu_share(tmp_path / "cgroup", tmp_path / "fs") == share


@pytest.mark.parametrize(("share", "cores"), [(None, 8), (0.2, 1), (2.5, 3), (100.0, 8)])
def test_parts_of_a_core_count_as_one(monkeypatch, share, cores):
    monkeypatch.setattr(detect, "_cpu_share", lambda *_: share)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert detect.core_count() == cores
