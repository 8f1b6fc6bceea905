"""The steps of a trace: as objects, as text, and as a page, which a real browser shows."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.schedule.chromium import PROGRAM, Browser, chromium
from tscript.ir.function import IRModule
from tscript.printer.changes import changed_parts, line_edits
from tscript.schedule import Schedule, Trace
from tscript.schedule import viewer as module
from tscript.schedule.viewer import page
from tscript.script import tir as T
from tscript.testing.workloads import matmul

HOSTILE = '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 2"> & <!-- "quoted" \u2028'


def product(size: int = 128) -> Schedule:
    """Twelve steps on a matrix product."""
    sch = Schedule(matmul(size, size, size).func)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    copy = sch.cache_write(block, 0, "global")
    (i0, i1), (j0, j1), (k0, k1) = sch.split(i, [None, 32]), sch.split(j, [None, 32]), sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, i1, k1, j1)
    sch.reverse_compute_at(copy, j0)
    sch.parallel(i0)
    init = sch.decompose_reduction(block, k0)
    for loop in (j1, sch.get_loops(init)[-1], sch.get_loops(copy)[-1]):
        sch.vectorize(loop)
    sch.unroll(k1)
    return sch


def trace_of(sch: Schedule) -> Trace:
    """The trace, which is there."""
    assert sch.trace is not None
    return sch.trace


# -- steps ----------------------------------------------------------------------------------------


def test_steps_are_the_changes_with_the_queries_before_them() -> None:
    sch = product()
    steps = trace_of(sch).steps()
    assert [s.name for s in steps] == (
        "start cache_write split split split reorder reverse_compute_at parallel decompose_reduction "
        "vectorize vectorize vectorize unroll"
    ).split()
    assert steps[1].calls[0].endswith('sch.get_block(name="C", func_name="main")')
    assert steps[1].call.startswith("b4 = sch.cache_write(")
    assert steps[0].mod.script() == Schedule(matmul(128, 128, 128).func).mod.script()
    assert steps[-1].mod.script() == sch.mod.script()


def test_each_step_has_the_program_that_the_schedule_had() -> None:
    sch = Schedule(matmul(16, 16, 16).func, seed=7)
    seen = [sch.mod.script()]
    i, _, k = sch.get_loops("C")
    sch.split(i, sch.sample_perfect_tile(i, 2))
    seen.append(sch.mod.script())
    sch.decompose_reduction("C", k)
    seen.append(sch.mod.script())
    assert [s.mod.script() for s in trace_of(sch).steps()] == seen
    sch.undo()
    assert [s.mod.script() for s in trace_of(sch).steps()] == seen[:-1]
    assert [s.mod.script() for s in trace_of(sch.copy()).steps()] == seen[:-1]


def test_queries_behind_the_last_change_belong_to_it() -> None:
    sch = Schedule(matmul(8, 8, 8).func)
    sch.parallel(sch.get_loops("C")[0])
    sch.get_block("C")
    (_, last) = trace_of(sch).steps()
    assert last.call.startswith("sch.parallel(")
    assert "get_block" in last.calls[-1]


def test_a_trace_that_cannot_be_replayed_stops_where_it_must() -> None:
    sch = product()
    trace = trace_of(sch).copy()
    other = Schedule(matmul(128, 128, 128).func)
    other.decompose_reduction("C", other.get_loops("C")[2])
    trace.start = lambda: Schedule(other.mod)
    steps = trace.steps()
    assert steps[-1].refusal and "ScheduleError" not in steps[-1].refusal
    assert len(steps) < 13
    assert "The replay stopped here" in trace.html()
    assert "(refused)" in trace.report()


def test_a_trace_without_a_program_shows_its_text() -> None:
    bare = Trace(trace_of(product()).insts)
    assert "tscript-steps" not in bare.html() and "cache_write" in bare.html()
    assert bare.html() == bare._repr_html_()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(ValueError, match="does not know its program"):
        bare.steps()
    with pytest.raises(ValueError, match="does not know its program"):
        bare.report()


# -- text -----------------------------------------------------------------------------------------


def test_the_report_has_a_line_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    trace = trace_of(product())
    trace.show(costs=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 14
    assert lines[0].split() == "step FLOPs parallel lanes iterations guards L1 L2 L3 FLOP/byte call".split()
    assert re.fullmatch(r" +0 +4\.19 M +1 +1 +2\.11 M +0 .* 16  \(start\)", lines[1])
    assert re.fullmatch(r" +12 +4\.19 M +4 +32 +17\.9 k +0 .*  sch\.unroll\(loop=l10\)", lines[13])
    assert "\033[1m" in trace.report(colours=True)
    assert re.sub(r"\033\[\d*m", "", trace.report(colours=True)) == trace.report()


def test_show_prints_the_trace_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    trace = trace_of(product())
    trace.show()
    assert capsys.readouterr().out == trace.script() + "\n"


def test_changed_parts_leave_out_what_stays() -> None:
    before = "\n".join(f"line {k}" for k in range(30))
    after = before.replace("line 10\n", "ten\n").replace("line 25\n", "")
    assert changed_parts(before, after).splitlines() == [
        *("  ...", "  line 8", "  line 9", "- line 10", "+ ten", "  line 11", "  line 12"),
        *("  ...", "  line 23", "  line 24", "- line 25", "  line 26", "  line 27", "  ..."),
    ]
    assert changed_parts(before, before) == ""
    assert line_edits([], ["a"]) == [(0, 0, 0, 1)]
    assert line_edits(["a", "a"], ["a"]) == [(1, 2, 1, 1)]


# -- markup ---------------------------------------------------------------------------------------


def data_of(html: str) -> Any:
    """What the page is told."""
    found = re.search(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_markup_is_made_fast_and_needs_nothing_from_elsewhere() -> None:
    trace = trace_of(product())
    trace.html()
    start = time.process_time()
    html = trace.html()
    assert time.process_time() - start < 0.5
    assert len(html.encode()) < 100_000
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://|fetch\(|XMLHttp|import\(""", html)


def test_a_hundred_steps_on_a_large_module_stay_below_a_megabyte() -> None:
    functions = {f"matmul_{n}": matmul(n, n, n).func for n in range(64, 164)}
    sch = Schedule(IRModule(functions))
    for n in range(64, 164):
        sch.work_on(f"matmul_{n}")
        sch.split(sch.get_loops("C")[0], [None, 8])
    html = trace_of(sch).html()
    data = data_of(html)
    assert len(data["steps"]) == 101
    assert len(html.encode()) < 1_000_000


def test_what_is_too_large_leaves_out_buffers_and_then_all_but_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(product())
    whole = len(trace.html().encode())
    assert data_of(trace.html())["rows"]
    monkeypatch.setattr(module, "LIMIT", whole)
    smaller = trace.html()
    assert len(smaller.encode()) < whole and data_of(smaller)["rows"] == []
    monkeypatch.setattr(module, "LIMIT", 10_000)
    assert "are too large for a page" in trace.html() and "cache_write" in trace.html()


def test_two_pictures_of_one_trace_are_the_same() -> None:
    assert trace_of(product()).html() == trace_of(product()).html()


# -- in a browser ---------------------------------------------------------------------------------

AFTER = """[...document.querySelectorAll('.tscript-steps')[%d].querySelectorAll('.ts-after .ts-line')]
    .filter((line) => !line.matches('.is-missing,.is-gone'))
    .map((line) => line.querySelector('.ts-text').cloneNode(true))
    .map((text) => { for (const s of text.querySelectorAll('.ts-spoken')) s.remove(); return text; })
    .map((text) => text.textContent).join('\\n')"""
STEP = "document.querySelectorAll('.tscript-steps')[%d].dataset.step"
FOCUS = "document.querySelectorAll('.tscript-steps')[%d].focus()"

CONTRAST = """(() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const linear = (x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const light = (c) => { const [r, g, b] = c.map((x) => linear(x / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const paper = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] === 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  for (const e of document.querySelectorAll('.tscript-steps.is-ready .ts-view *')) {
    if (e.closest(':disabled') || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(paper(e))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), e.className, e.textContent.slice(0, 30)]);
  }
  found.sort((x, y) => x[0] - y[0]);
  return [found.length, ...found[0]];
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this file."""
    if PROGRAM is None:
        pytest.skip("no Chromium here")
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


def shown(browser: Browser, folder: Path, *bodies: str) -> None:
    """Show markup in a page, in a wide window."""
    browser.messages.clear()
    browser.size(1300, 1000)
    browser.scheme("light")
    path = folder / "page.html"
    path.write_text(page("\n".join(bodies), "steps"), encoding="utf-8")
    browser.visit(path)


def test_keys_go_through_the_steps_and_each_shows_its_program(browser: Browser, tmp_path: Path) -> None:
    trace = trace_of(product())
    scripts = [s.mod.script() for s in trace.steps()]
    shown(browser, tmp_path, trace.html())
    assert browser.run(STEP % 0) == "12"
    browser.run(FOCUS % 0)
    for view in ("both", "marked", "after"):
        browser.run(f"document.querySelector('[data-view={view}]').disabled = false")
        browser.run(f"document.querySelector('[data-view={view}]').click()")
        browser.run(FOCUS % 0)
        browser.press("Home")
        for k, script in enumerate(scripts):
            assert browser.run(STEP % 0) == str(k)
            assert browser.run(AFTER % 0) == script
            browser.press("ArrowRight")
        assert browser.run(STEP % 0) == "12"
        browser.press("ArrowLeft")
        assert browser.run(STEP % 0) == "11"
        browser.press("End")
        assert browser.run(STEP % 0) == "12"
    assert browser.messages == []


def test_the_slider_and_the_list_move_by_keys_of_their_own(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, trace_of(product()).html())
    browser.run("document.querySelector('.ts-slider').focus()")
    browser.press("ArrowLeft")
    assert browser.run(STEP % 0) == "11"
    assert browser.run("document.querySelector('.ts-slider').value") == "11"
    spoken = browser.run("document.querySelector('.ts-slider').getAttribute('aria-valuetext')")
    assert spoken == "step 11 of 12: vectorize"
    browser.run("document.querySelectorAll('.ts-step')[5].click()")
    assert browser.run(STEP % 0) == "5"
    assert browser.run("document.querySelector('[aria-current=step]').textContent") == "5reorder"
    assert browser.run("document.querySelector('.ts-this').textContent").startswith("sch.reorder(")
    # Arrows within a program scroll it.
    browser.run("document.querySelector('.ts-code').focus()")
    browser.press("ArrowRight")
    assert browser.run(STEP % 0) == "5"
    unnamed = """[...document.querySelectorAll('.ts-view button,.ts-view input,.ts-view [tabindex]')]
        .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim())).length"""
    assert browser.run(unnamed) == 0
    assert browser.messages == []


def test_changed_lines_are_marked_before_and_after(browser: Browser, tmp_path: Path) -> None:
    sch = Schedule(matmul(8, 8, 8).func)
    sch.parallel(sch.get_loops("C")[0])
    shown(browser, tmp_path, trace_of(sch).html())
    gone = browser.run("[...document.querySelectorAll('.ts-before .is-gone .ts-text')].map((e) => e.textContent)")
    new = browser.run("[...document.querySelectorAll('.ts-after .is-new .ts-text')].map((e) => e.textContent)")
    assert gone[0].split("removed: ")[1].strip() == "for i, j, k in T.grid(8, 8, 8):"
    assert new[0].split("added: ")[1].strip() == "for i in T.parallel(8):"
    row = "[...document.querySelectorAll('.ts-costs tr')].find((r) => r.firstChild.textContent === 'parallel')"
    assert browser.run(f"[...{row}.children].map((c) => c.textContent)") == ["parallel", "1", "8", "× 8.00"]


def test_several_viewers_do_not_meet(browser: Browser, tmp_path: Path) -> None:
    small = Schedule(matmul(8, 8, 8).func)
    small.parallel(small.get_loops("C")[0])
    shown(browser, tmp_path, trace_of(product()).html(), trace_of(small).html(), trace_of(product()).html())
    assert [browser.run(STEP % k) for k in range(3)] == ["12", "1", "12"]
    browser.run(FOCUS % 1)
    browser.press("Home")
    browser.run(FOCUS % 2)
    browser.press("ArrowLeft")
    assert [browser.run(STEP % k) for k in range(3)] == ["12", "0", "11"]
    assert browser.run(AFTER % 1) == Schedule(matmul(8, 8, 8).func).mod.script()
    assert browser.messages == []


def test_nothing_of_a_program_is_read_as_markup(browser: Browser, tmp_path: Path) -> None:
    @T.prim_func
    def hostile(A: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            with T.block("B"):
                T.block_attr({"note": HOSTILE})
                v = T.axis.spatial(8, i)
                A[v] = T.float32(1)

    sch = Schedule(hostile)
    sch.annotate(sch.get_loops("B")[0], "note", HOSTILE)
    shown(browser, tmp_path, trace_of(sch).html())
    assert browser.run("window.broken") is None
    assert browser.run("document.images.length") == 0
    assert browser.run(AFTER % 0) == sch.mod.script()
    assert browser.run("document.querySelector('.ts-this').textContent") == trace_of(sch).steps()[-1].call
    assert browser.messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 480])
def test_it_reads_in_light_and_dark_wide_and_narrow(browser: Browser, tmp_path: Path, scheme: str, width: int) -> None:
    shown(browser, tmp_path, trace_of(product()).html())
    browser.scheme(scheme)
    browser.size(width, 1000)
    browser.run(FOCUS % 0)
    for key in ("End", "Home", "ArrowRight"):
        browser.press(key)
        count, ratio, *where = browser.run(CONTRAST)
        assert count > 100
        assert ratio >= 4.5, where
    assert browser.run("document.documentElement.scrollWidth") <= width
    kind = browser.run("document.querySelector('.ts-body').className")
    assert kind == ("ts-body is-both" if width == 1300 else "ts-body is-marked")


def test_the_theme_of_a_notebook_comes_before_that_of_the_system(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, trace_of(product()).html())
    paper = "getComputedStyle(document.querySelector('.tscript-steps')).backgroundColor"
    light = browser.run(paper)
    browser.run("document.body.dataset.jpThemeLight = 'false'")
    dark = browser.run(paper)
    assert light != dark
    assert browser.run(CONTRAST)[1] >= 4.5
    browser.scheme("dark")
    browser.run("document.body.dataset.jpThemeLight = 'true'")
    assert browser.run(paper) == light


def test_without_scripts_the_text_of_the_trace_is_there(browser: Browser, tmp_path: Path) -> None:
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        shown_text = trace_of(product()).html()
        path = tmp_path / "page.html"
        path.write_text(page(shown_text, "steps"), encoding="utf-8")
        browser.visit(path)
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("document.querySelector('.ts-plain').offsetHeight > 100")
    assert "apply_trace" in browser.run("document.querySelector('.ts-plain').innerText")
