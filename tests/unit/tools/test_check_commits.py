# SPDX-License-Identifier: Apache-2.0
"""Rules for commit messages."""

from __future__ import annotations

import pytest

from tools.check_commits import problems_of


@pytest.mark.parametrize(
    "message",
    [
        "store: flush before close",
        "tests/e2e: wait for conditions\n\nWhy it is so.",
        "api, apiserver: rename Attempt to Attributes",
        'Revert "store: flush before close"',
    ],
)
def test_valid_commit_messages(message: str) -> None:
    assert problems_of(message) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("Flush before close", "the subject is not `area: summary`"),
        ("store: " + "x" * 66, "the subject has 73 characters, 72 are allowed"),
        ("store: flush before close.", "the subject ends with a period"),
        ("store: flush before close\nbecause", "no empty line between subject and body"),
    ],
)
def test_invalid_commit_messages(message: str, problem: str) -> None:
    assert problems_of(message) == [problem]
