"""What the pages for contributors say about the code is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from tscript.support import errors
from tscript.support.config import knob_table

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "tutorials" / "contributing"


def test_the_table_of_settings_is_the_one_of_the_configuration():
    text = (PAGES / "debugging.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("<!-- settings")
    shown = rest.partition("-->\n")[2].partition("\n<!-- end of settings")[0]
    assert shown == knob_table()


def test_the_order_of_packages_is_the_one_that_is_enforced():
    source = (ROOT / "tests" / "architecture" / "test_layers.py").read_text(encoding="utf-8")
    literal = re.search(r"LAYERS = \(\n(.*?)\n\)\.split\(\)", source, re.S)
    assert literal is not None
    enforced = "".join(re.findall(r'"([^"]*)"', literal[1])).split()
    text = (PAGES / "architecture.md").read_text(encoding="utf-8")
    block = re.search(r"```\n(support <.*?)```", text, re.S)
    assert block is not None
    assert block[1].replace("<", " ").split() == [*enforced, "faces"]


def test_every_file_a_page_names_exists():
    missing = []
    for page in PAGES.glob("*.md"):
        for path in re.findall(r"`((?:tscript|tests|tutorials|benchmarks)/[\w/.]*)`", page.read_text(encoding="utf-8")):
            if not (ROOT / path).exists():
                missing.append(f"{page.name}: {path}")
    assert not missing, "\n".join(missing)


def test_every_kind_of_error_is_described():
    text = (PAGES / "debugging.md").read_text(encoding="utf-8")
    kinds = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__name__ == name
    ]
    missing = [name for name in kinds if f"`{name}`" not in text]
    assert not missing, missing
