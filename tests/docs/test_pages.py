# SPDX-License-Identifier: Apache-2.0
"""The code on the pages runs, and prints what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page import blocks_of, is_shown, run_page
from tests.skips import needs_kubectl

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REAL_NODE = DOCS / "tutorials" / "real-node.md"
RUN = sorted(
    {*(DOCS / "tutorials").glob("*.md"), *(DOCS / "how-to").glob("*.md"), DOCS / "reference" / "types.md"} - {REAL_NODE}
)
# Pages whose blocks are checked elsewhere, or cannot be run here.
OTHERS = {
    "admission.md": "a flag combination, which tests/unit/cli checks",
    "chaos.md": "excerpts of examples, which tests/e2e/test_examples.py runs",
    "dns.md": "tests/e2e/test_dns.py runs the program, and asks it with dig",
    "high-availability.md": "tests/e2e/test_high_availability.py starts this plane",
    "nodes.md": "commands against a plane of the reader's, and an excerpt",
    "reference/comparison.md": "a measurement",
    "scheduler.md": "an excerpt of a plugin",
    "service-proxy.md": "commands on a node, as those of tests/realnode/test_service_proxy.py",
    "tutorials/real-node.md": "tests/realnode/test_tutorial.py runs it",
    "testing.md": "commands that run the whole test suite",
    "writing-a-controller.md": "tests/e2e/test_examples.py runs it",
}


@needs_kubectl()
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


def test_every_page_with_code_is_run_or_listed() -> None:
    pages = {
        str(page.relative_to(DOCS))
        for page in DOCS.rglob("*.md")
        if any(block.language != "yaml" for block in blocks_of(page))
    }
    assert pages - {str(page.relative_to(DOCS)) for page in RUN} == set(OTHERS)


def test_tutorials_run_most_of_their_code() -> None:
    for page in (DOCS / "tutorials").glob("*.md"):
        left_out = [block for block in blocks_of(page) if not block.is_runnable]
        assert len(left_out) <= 1, page


@pytest.mark.parametrize(
    ("expected", "output", "equal"),
    [
        ("a b", "a   b\n", True),
        ("a ... c", "a b c", True),
        ("...done", "first\nsecond done", True),
        ("a b", "a c", False),
        ("", "anything", False),
    ],
)
def test_output_is_compared_with_what_is_shown(expected: str, output: str, equal: bool) -> None:
    assert is_shown(expected, output) is equal
