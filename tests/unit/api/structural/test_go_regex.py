# SPDX-License-Identifier: Apache-2.0
"""Go's regular expressions."""

from __future__ import annotations

import pytest

from kubeloop.api.structural.go_regex import RegexError, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        (r"\d", "٣", False),
        ("^[[:alpha:]]+$", "abC", True),
        ("^[[:alpha:]_]+$", "a1", False),
        (r"^a\z", "a", True),
        ("b", "abc", True),
        (r"[$]", "$", True),
        (r"^[^]]$", "]", False),
        (r"\$", "$", True),
        ("^[[]$", "[", True),
        ("^(?i)abc$", "aBC", True),
        (r"\(?i\)", "(i)", True),
    ],
)
def test_pattern_matches_like_go(pattern: str, text: str, matches: bool) -> None:
    assert (compile_pattern(pattern).search(text) is not None) is matches


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a(b", "missing closing ): `a(b`"),
        ("a)b", "unexpected ): `a)b`"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator: `*`"),
        (r"(a)\1", "invalid escape sequence: `\\1`"),
        ("(?<!a)b", "invalid or unsupported Perl syntax: `(?<!`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        (r"a\C", "invalid escape sequence: `\\C`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_invalid_pattern_is_rejected_with_gos_message(pattern: str, words: str) -> None:
    with pytest.raises(RegexError, match=r"^error parsing regexp: ") as error:
        compile_pattern(pattern)
    assert str(error.value) == f"error parsing regexp: {words}"


def test_backtracking_pattern_is_matched_in_linear_time() -> None:
    assert compile_pattern("^(a+)+$").search("a" * 100_000 + "b") is None
