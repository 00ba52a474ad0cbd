# SPDX-License-Identifier: Apache-2.0
"""Tests of the consumed capacity of a shared device."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.resource_v1 import CapacityRequirements, Device
from kubeloop.scheduler.dra.capacity import CapacityError, consumed_capacity


def taken(value: str, policy: dict[str, Any] | None, asked: str | None) -> str | None:
    capacity = {"value": value, **({"requestPolicy": policy} if policy else {})}
    device = from_plain({"name": "d", "capacity": {"size": capacity}}, Device)
    wanted = from_plain({"requests": {"size": asked}}, CapacityRequirements) if asked is not None else None
    share = consumed_capacity(device, wanted)
    return None if share is None else str(share["size"])


STEPS = {"default": "1Gi", "validRange": {"min": "2Gi", "max": "8Gi", "step": "2Gi"}}
VALUES = {"default": "1", "validValues": ["1", "2", "5"]}


@pytest.mark.parametrize(
    ("value", "policy", "asked", "share"),
    [
        ("10Gi", None, None, "10Gi"),  # no request takes all of it
        ("10Gi", None, "3Gi", "3Gi"),
        ("10Gi", None, "11Gi", None),
        ("10Gi", STEPS, None, "1Gi"),  # the default need not keep to the rules
        ("10Gi", STEPS, "1", "2Gi"),
        ("10Gi", STEPS, "3Gi", "4Gi"),
        ("10Gi", STEPS, "4Gi", "4Gi"),
        ("10Gi", STEPS, "7Gi", "8Gi"),
        ("10Gi", STEPS, "9Gi", None),
        ("10Gi", {"default": "1Gi", "validRange": {"min": "1Gi"}}, "3500Mi", "3500Mi"),
        ("10Gi", {"default": "1Gi", "validRange": {"min": "1Gi"}}, "1Mi", "1Gi"),
        ("9", VALUES, "1", "1"),
        ("9", VALUES, "3", "5"),
        ("9", VALUES, "6", None),
        ("4", VALUES, "5", None),
        ("1", {"default": "100m", "validRange": {"min": "100m", "step": "50m"}}, "120m", "150m"),
        ("1", {"default": "1", "validRange": {"min": "500m", "step": "500m"}}, "800m", "1"),
        ("9", {"default": "1", "validRange": {"min": "1u", "step": "2"}}, "2500m", "3"),  # finer than thousandths
    ],
)
def test_request_policy_rounds_the_requested_capacity(
    value: str, policy: dict[str, Any] | None, asked: str | None, share: str | None
) -> None:
    assert taken(value, policy, asked) == share


def test_device_without_the_requested_capacity_is_skipped() -> None:
    wanted = from_plain({"requests": {"other": "1"}}, CapacityRequirements)
    assert consumed_capacity(from_plain({"name": "d", "capacity": {"size": {"value": "1"}}}, Device), wanted) is None


RANGE = "capacity request cannot be represented in the device's range arithmetic"


@pytest.mark.parametrize(
    ("policy", "asked", "told"),
    [
        (
            {"default": "1", "validRange": {"min": "1m", "step": "1m"}},
            "1500u",
            f'capacity "size": {RANGE}: request 1500u is not a representable milli value',
        ),
        (
            {"default": "1", "validRange": {"min": "1u", "step": "1"}},
            "10E",
            f'capacity "size": {RANGE}: request 10E exceeds MaxInt64',
        ),
        (
            {"default": "1", "validRange": {"min": "1u", "step": "5E"}},
            "6E",
            f'capacity "size": {RANGE}: rounding request 6E up to the next step passes MaxInt64',
        ),
        (
            {"default": "1", "validRange": {"min": "1", "step": "5P"}},
            "6P",
            f'capacity "size": {RANGE}: rounding request 6P up to the next step passes the milli-value range',
        ),
        (None, "-1", 'capacity "size": capacity value is negative'),
    ],
)
def test_invalid_amounts_end_the_attempt(policy: dict[str, Any] | None, asked: str, told: str) -> None:
    with pytest.raises(CapacityError) as found:
        taken("10Gi", policy, asked)
    assert str(found.value) == told


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 40), st.integers(1, 12), st.integers(1, 7), st.integers(1, 60), st.booleans())
def test_steps_count_from_the_minimum(asked: int, least: int, step: int, value: int, milli: bool) -> None:
    unit = "m" if milli else ""
    policy = {"default": f"{least}{unit}", "validRange": {"min": f"{least}{unit}", "step": f"{step}{unit}"}}
    found = taken(f"{value}{unit}", policy, f"{asked}{unit}")
    expected = next(one for one in range(least, asked + least + step + 1, step) if one >= asked)
    number = None if found is None else Fraction(found.removesuffix("m")) / (1000 if found.endswith("m") else 1)
    assert number == (None if expected > value else Fraction(expected, 1000 if milli else 1))
