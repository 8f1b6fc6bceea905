"""What the README shows is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The code blocks of one language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.S)


def test_the_example_prints_what_the_readme_says(tmp_path):
    program = tmp_path / "example.py"
    program.write_text(blocks("python")[0], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)], capture_output=True, text=True, env=_environment(), timeout=50
    )
    assert done.stderr == ""
    assert done.stdout.strip() == blocks("text")[0].strip()


def _environment() -> dict[str, str]:
    # The example runs as a user's file would, outside the source tree.
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}


def test_the_example_is_short():
    assert len([line for line in blocks("python")[0].splitlines() if line]) <= 20


def test_the_test_command_is_the_one_that_ci_runs():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    setup = re.search(r'^SETUP="(.*)"$', ci, re.M)
    tests = re.search(r'^TESTS="(.*)"$', ci, re.M)
    assert setup is not None and tests is not None
    assert f"{setup[1]} && {tests[1]}" in [b.strip() for b in blocks("sh")]
    assert 'step "tests and notebooks" "$SETUP && $TESTS"' in ci


def test_two_commands_do_all_the_set_up():
    commands = [b.strip() for b in blocks("sh")]
    assert len(commands) == 2
    assert all(c.startswith("python3 -m venv .venv && .venv/bin/pip install") and "\n" not in c for c in commands)
    assert commands[0].endswith("python -m tscript demo")


def test_links_lead_somewhere():
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.S)
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    assert links
    wrong = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not wrong, wrong


def test_the_map_names_every_package():
    packages = {p.parent.name for p in (ROOT / "tscript").glob("*/__init__.py")}
    missing = [p for p in sorted(packages) if f"{p}/" not in blocks("text")[1]]
    assert not missing, missing
