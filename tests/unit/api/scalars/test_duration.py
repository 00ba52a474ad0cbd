# SPDX-License-Identifier: Apache-2.0
"""Durations read and print as Go's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.scalars.duration import (
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    DurationError,
    format_duration,
    parse_duration,
)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("+0", 0),
        ("0s", 0),
        ("5s", 5 * SECOND),
        ("-5s", -5 * SECOND),
        ("1.5s", 1500 * MILLISECOND),
        (".5s", 500 * MILLISECOND),
        ("5.s", 5 * SECOND),
        ("1h15m30.918s", HOUR + 15 * MINUTE + 30_918 * MILLISECOND),
        ("10ns", 10),
        ("11us", 11_000),
        ("12\u00b5s", 12_000),
        ("12\u03bcs", 12_000),
        ("0.3333333333333333333h", 20 * MINUTE),
        ("0.100000000000000000000h", 6 * MINUTE),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("1m1m", 2 * MINUTE),
    ],
)
def test_duration_is_parsed_to_nanoseconds(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".", 'time: invalid duration "."'),
        (".s", 'time: invalid duration ".s"'),
        ("s", 'time: invalid duration "s"'),
        ("3", 'time: missing unit in duration "3"'),
        ("1h3", 'time: missing unit in duration "1h3"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
        ("1\u00e9", 'time: unknown unit "\\xc3\\xa9" in duration "1\\xc3\\xa9"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
    ],
)
def test_invalid_duration_reports_gos_message(text: str, message: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1\u00b5s"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (4 * MINUTE + 5 * SECOND, "4m5s"),
        (4 * MINUTE + 5_001 * MILLISECOND, "4m5.001s"),
        (HOUR, "1h0m0s"),
        (100 * HOUR + MINUTE, "100h1m0s"),
        (-90 * SECOND, "-1m30s"),
        (-(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_duration_is_formatted_like_go(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text


@settings(max_examples=200)
@given(st.integers(-(2**63), 2**63 - 1))
def test_formatted_duration_round_trips(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds
