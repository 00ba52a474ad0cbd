# SPDX-License-Identifier: Apache-2.0
"""Numbers, texts and percentages scale as upstream's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.scalars import intstr
from kubeloop.api.scalars.intstr import IntOrString, IntOrStringError


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [(3, 10, 3, 3), ("25%", 10, 3, 2), ("100%", 7, 7, 7), ("0%", 7, 0, 0), ("150%", 3, 5, 4), ("-5%", 10, 0, -1)],
)
def test_percentage_is_rounded_as_requested(value: IntOrString, total: int, up: int, down: int) -> None:
    assert intstr.scaled_value(value, total, round_up=True) == up
    assert intstr.scaled_value(value, total, round_up=False) == down


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "nil value for IntOrString"),
        ("3", "invalid value for IntOrString: invalid type: string is not a percentage"),
        (
            "x%",
            'invalid value for IntOrString: invalid value "x%": strconv.Atoi: parsing "x": invalid syntax',
        ),
        (
            "99999999999999999999%",
            'invalid value for IntOrString: invalid value "99999999999999999999%": '
            'strconv.Atoi: parsing "99999999999999999999": value out of range',
        ),
    ],
)
def test_unscalable_value_reports_upstreams_message(value: IntOrString | None, message: str) -> None:
    with pytest.raises(IntOrStringError) as caught:
        intstr.scaled_value(value, 10, round_up=True)
    assert str(caught.value) == message


def test_text_is_a_number_only_within_32_bits() -> None:
    assert intstr.parse_int_or_string("80") == 80
    assert intstr.parse_int_or_string("-1") == -1
    assert intstr.parse_int_or_string("2147483648") == "2147483648"
    assert intstr.parse_int_or_string("http") == "http"


def test_non_numeric_text_counts_as_zero() -> None:
    assert intstr.int_value(5) == 5
    assert intstr.int_value("6") == 6
    assert intstr.int_value("http") == 0


def test_only_digits_before_the_sign_make_a_percentage() -> None:
    assert intstr.is_percent("5%")
    assert not intstr.is_percent("-5%")
    assert not intstr.is_percent(5)


@given(st.integers(0, 200), st.integers(0, 10**6))
def test_rounding_up_and_down_differ_by_at_most_one(percent: int, total: int) -> None:
    up = intstr.scaled_value(f"{percent}%", total, round_up=True)
    down = intstr.scaled_value(f"{percent}%", total, round_up=False)
    assert down * 100 <= percent * total <= up * 100
    assert up - down in (0, 1)
