"""How a run is shown while it goes, and plotted afterwards."""

from __future__ import annotations

import builtins
import io
import sys
from types import SimpleNamespace

import pytest

from tscript.meta_schedule import progress as progress_module
from tscript.meta_schedule.curve import Curve
from tscript.meta_schedule.progress import Progress


class Task:
    """One of a billion operations."""

    def gflops(self, ms: float) -> float:
        return 1e9 / ms / 1e6


def test_the_line_counts_trials_failures_and_the_best(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    task = Task()
    shown = Progress([task], 8)
    assert shown.line() == "0/8 trials"
    shown.advance(task, [0.5, 0.25, 0.25])
    shown.advance(task, None)
    clock[0] += 10
    assert shown.line() == "2/8 trials, 1 failed, best 4.00 GFLOPS (250000.0 us), 10 s spent, about 30 s left"
    shown.advance(task, [1.0])
    assert "best 4.00 GFLOPS" in shown.line()


def test_several_tasks_tell_how_many_ran():
    tasks = [Task(), Task(), Task()]
    shown = Progress(tasks, 9)
    shown.advance(tasks[0], [0.5])
    shown.advance(tasks[2], [0.1])
    assert "2/3 tasks ran, up to 10.00 GFLOPS" in shown.line()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_it_live_and_is_left_clean(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_module, "notebook_display", lambda: None)
    task = Task()
    with Progress([task], 3) as shown:
        for secs in ([0.5], None, [0.1]):
            shown.advance(task, secs)
            assert shown._live is not None
            shown._live.refresh()
    text = terminal.getvalue()
    assert "1/3 trials" in text
    assert "3/3 trials, 1 failed, best 10.00 GFLOPS" in text
    assert "\x1b[2K" in text  # the line is erased at the end


def test_a_pipe_stays_quiet(monkeypatch):
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    monkeypatch.setattr(progress_module, "notebook_display", lambda: None)
    with Progress([Task()], 3) as shown:
        shown.advance(Task(), None)
    assert plain.getvalue() == ""


def test_a_notebook_updates_one_output(monkeypatch):
    sent = []
    handle = SimpleNamespace(update=lambda bundle, raw: sent.append(("update", bundle["text/plain"])))

    def display(bundle, raw, display_id):
        sent.append(("display", bundle["text/plain"]))
        return handle

    monkeypatch.setattr(progress_module, "notebook_display", lambda: SimpleNamespace(display=display))
    task = Task()
    with Progress([task], 2) as shown:
        shown.advance(task, [0.5])
        shown.advance(task, None)
    assert sent[0] == ("display", "0/2 trials")
    assert [kind for kind, _ in sent[1:]] == ["update", "update"]
    assert "2/2 trials, 1 failed, best 2.00 GFLOPS" in sent[-1][1]


@pytest.mark.parametrize(("over_time", "label", "last"), [(False, "trials", 3.0), (True, "seconds", 7.0)])
def test_the_curve_is_plotted(over_time, label, last):
    matplotlib = pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    matplotlib.use("Agg")
    axes = Curve([1.0, 1.0, 4.0], [0.0, 2.0, 7.0]).plot(over_time=over_time)
    line = axes.get_lines()[0]
    assert list(line.get_ydata()) == [1.0, 1.0, 4.0]
    assert line.get_xdata()[-1] == last
    assert axes.get_xlabel() == label
    assert Curve([2.0], [0.0]).plot(axes) is axes


def test_plots_name_the_package_that_they_need(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"matplotlib \(pip install 'tscript\[plot\]'\)"):
        Curve([1.0], [0.0]).plot()
