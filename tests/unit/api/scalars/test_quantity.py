# SPDX-License-Identifier: Apache-2.0
"""Quantities are exact, and spelled as upstream spells them."""

from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kubeloop.api.scalars.quantity import (
    MILLI,
    Quantity,
    QuantityError,
    QuantityFormat,
    canonical_quantity,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("000", "0"),
        ("-0", "0"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1.0", "1"),
        ("1000", "1k"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1024Mi", "1Gi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("1.5Gi", "1536Mi"),
        ("-1.5Gi", "-1536Mi"),
        ("0.0001Ki", "102400u"),
        ("1023", "1023"),
        ("1Pi", "1Pi"),
        ("1e3", "1e3"),
        ("1e4", "10e3"),
        ("1e-30", "1e-9"),
        ("12E", "12E"),
        ("8Ei", "9223372036854775807"),
        ("-9Ei", "-9223372036854775807"),
        (".", "0"),
        ("+", "0"),
        (" 1 ", "1"),
        # Quantities that upstream's fast path takes for canonical keep their form.
        ("+1", "+1"),
        ("001", "001"),
        ("5.", "5."),
        ("1.500", "1.500"),
        ("1E3", "1E3"),
    ],
)
def test_quantity_has_a_canonical_form(text: str, canonical: str) -> None:
    assert canonical_quantity(text) == canonical


@pytest.mark.parametrize("text", ["", "a", "1x", "1 m", "1.2.3", "+-x", "1Ki ", "1,5", "\u0661", "1" * 50 + "x"])
def test_malformed_quantity_is_rejected(text: str) -> None:
    with pytest.raises(QuantityError, match=r"^quantities must match the regular expression '\^\("):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["1e", "1ki", "1K", "1mi", "1m5", "1-5", "1+", "1ee3", "1eE", "1KiKi", "--1"])
def test_an_unknown_suffix_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match=r"^unable to parse quantity's suffix$"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["e-10", ".e-10", "1e1001", "9" * 1001])
def test_missing_or_excessive_number_is_rejected(text: str) -> None:
    with pytest.raises(QuantityError, match=r"^unable to parse numeric part of quantity$"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1", 1, 1000),
        ("1m", 1, 1),
        ("1u", 1, 1),
        ("-1m", -1, -1),
        ("1500m", 2, 1500),
        ("0", 0, 0),
        ("1Ki", 1024, 1024000),
    ],
)
def test_values_round_away_from_zero(text: str, value: int, milli: int) -> None:
    quantity = parse_quantity(text)
    assert (quantity.value(), quantity.milli_value()) == (value, milli)


def test_precision_can_be_cut_upwards() -> None:
    assert str(parse_quantity("1100u").rounded_up(MILLI)) == "2m"
    assert str(parse_quantity("1.500").rounded_up(MILLI)) == "1.500"


def test_sum_keeps_the_first_format_unless_zero() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1G")) == "2073741824"
    assert str(parse_quantity("0") + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("1G") - parse_quantity("1Gi")) == "-73741824"
    assert str(parse_quantity("0") - parse_quantity("1Gi")) == "-1Gi"
    assert str(parse_quantity("100m") * 15) == "1500m"


def test_amounts_made_from_numbers_print_canonically() -> None:
    assert str(Quantity.of(2048, QuantityFormat.BINARY_SI)) == "2Ki"
    assert str(Quantity.of_milli(250)) == "250m"
    assert str(Quantity.of(10**21)) == "1000E"
    assert str(Quantity.of(2**70, QuantityFormat.BINARY_SI)) == "1024Ei"


def test_equal_amounts_in_different_formats_are_equal() -> None:
    assert parse_quantity("1Ki") == parse_quantity("1024")
    assert hash(parse_quantity("1")) == hash(parse_quantity("1000m"))
    assert parse_quantity("1G") < parse_quantity("1Gi")
    assert parse_quantity("-1").sign() == -1
    assert float(parse_quantity("250m")) == 0.25


SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000 ** (index + 1)) for index, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (index + 1)) for index, suffix in enumerate("KMGTPE")},
    "e3": Fraction(1000),
    "E-4": Fraction(1, 10**4),
}
numbers = st.from_regex(r"\A[+-]?[0-9]{1,20}(\.[0-9]{0,12})?\Z")


@settings(max_examples=300)
@given(numbers, st.sampled_from(sorted(SUFFIXES)))
def test_parsed_amount_is_rounded_away_from_zero_to_nanos(number: str, suffix: str) -> None:
    exact = Fraction(number.rstrip(".")) * SUFFIXES[suffix]
    if suffix.endswith("i"):
        assume(abs(exact) <= 2**63 - 1)
    nanos = exact * 10**9
    expected = -(-nanos // 1) if nanos > 0 else nanos // 1
    assert parse_quantity(number + suffix).nanos == expected


@settings(max_examples=300)
@given(numbers, st.sampled_from(sorted(SUFFIXES)))
def test_canonical_form_keeps_the_amount_and_is_stable(number: str, suffix: str) -> None:
    quantity = parse_quantity(number + suffix)
    canonical = canonical_quantity(number + suffix)
    assert parse_quantity(canonical) == quantity
    assert canonical_quantity(canonical) == canonical


amounts = st.builds(Quantity, st.integers(-(10**30), 10**30), st.sampled_from(QuantityFormat))


@given(amounts, amounts, st.integers(-1000, 1000))
def test_arithmetic_agrees_with_fractions(one: Quantity, other: Quantity, times: int) -> None:
    def exact(quantity: Quantity) -> Fraction:
        return Fraction(quantity.nanos, 10**9)

    assert exact(one + other) == exact(one) + exact(other)
    assert exact(one - other) == exact(one) - exact(other)
    assert exact(one * times) == exact(one) * times
    assert (one < other) is (exact(one) < exact(other))


@given(st.integers(-(10**25), 10**25), st.sampled_from([QuantityFormat.DECIMAL_SI, QuantityFormat.DECIMAL_EXPONENT]))
def test_decimal_amounts_round_trip(nanos: int, format: QuantityFormat) -> None:
    quantity = Quantity(nanos, format)
    assert parse_quantity(str(quantity)).nanos == nanos
