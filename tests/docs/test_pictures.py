# SPDX-License-Identifier: Apache-2.0
"""The committed pictures are drawn from the text beside them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.skips import NEEDS_TOOL
from tools.site import diagrams, terminal

DIAGRAMS = sorted(diagrams.FOLDER.glob("*.dot"))
SESSIONS = sorted(terminal.FOLDER.glob("*.txt"))
_NUMBERS = re.compile(r"-?\d+(\.\d+)?")


@pytest.mark.parametrize("source", DIAGRAMS, ids=lambda source: source.stem)
def test_diagram_names_the_digest_of_its_source(source: Path) -> None:
    assert diagrams.digest(source) in source.with_suffix(".svg").read_text(), "run make pictures"


@pytest.mark.parametrize("source", DIAGRAMS, ids=lambda source: source.stem)
def test_diagram_is_what_graphviz_draws(source: Path) -> None:
    if shutil.which("dot") is None:
        pytest.skip(f"{NEEDS_TOOL}graphviz")
    # Positions depend on the fonts of the machine; everything else does not.
    drawn, committed = diagrams.draw(source), source.with_suffix(".svg").read_text()
    assert _NUMBERS.sub("0", drawn).split() == _NUMBERS.sub("0", committed).split()


@pytest.mark.parametrize("source", SESSIONS, ids=lambda source: source.stem)
def test_terminal_picture_is_what_the_tool_draws(source: Path) -> None:
    picture = source.with_suffix(".svg").read_text()
    assert picture == terminal.draw("kubeloop", source.read_text())
    assert ElementTree.fromstring(picture).tag.endswith("svg")
