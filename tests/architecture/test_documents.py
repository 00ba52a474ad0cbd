# SPDX-License-Identifier: Apache-2.0
"""Checks that documents refer to existing files, symbols and make targets."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SYMBOL = re.compile(r"`(kubeloop(?:\.\w+)+)`")
_TARGET = re.compile(r"`make ([a-z]+)")


def found(pattern: re.Pattern[str]) -> list[object]:
    return [
        pytest.param(path, match, id=f"{path.relative_to(ROOT)}: {match}")
        for path in DOCUMENTS
        for match in dict.fromkeys(pattern.findall(path.read_text()))
    ]


@pytest.mark.parametrize(("document", "target"), found(_LINK))
def test_links_resolve(document: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    if "://" in path:
        return
    linked = (document.parent / path) if path else document
    assert linked.exists()
    if anchor:
        headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("document", "symbol"), found(_SYMBOL))
def test_named_symbol_exists(document: Path, symbol: str) -> None:
    parts = symbol.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing = import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if not str(error.name).startswith("kubeloop"):
                raise
            continue
        for attribute in parts[length:]:
            thing = getattr(thing, attribute)
        return
    pytest.fail(f"{symbol} does not exist")


@pytest.mark.parametrize(("document", "target"), found(_TARGET))
def test_named_make_target_exists(document: Path, target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_architecture_names_enough_symbols_to_be_checked() -> None:
    assert len(_SYMBOL.findall((ROOT / "ARCHITECTURE.md").read_text())) > 30
