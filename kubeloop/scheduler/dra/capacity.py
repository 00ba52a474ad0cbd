# SPDX-License-Identifier: Apache-2.0
"""Consumable capacity: the amount of a device's capacities that a request takes under its request policy. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeloop.api.generated.resource_v1 import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    Device,
    DeviceCapacity,
)
from kubeloop.api.scalars.quantity import Quantity, parse_quantity

Amounts = Mapping[str, Quantity]

_LARGEST: Final = 2**63 - 1
_MILLI_NANOS: Final = 10**6


class CapacityError(Exception):
    """Raised for an amount that cannot be represented; no other device would help."""


def consumed_capacity(device: Device, asked: CapacityRequirements | None) -> dict[str, Quantity] | None:
    """Return the capacity that a request consumes; None if even the unused device cannot provide it."""
    wanted = {} if asked is None else asked.requests
    if not device.capacity and not wanted:
        return {}
    if any(name not in device.capacity for name in wanted):
        return None
    share = {name: _resolve_amount(name, one, wanted.get(name)) for name, one in device.capacity.items()}
    for name, one in device.capacity.items():
        if _violates(share[name], one.request_policy) or share[name] > parse_quantity(one.value):
            return None
    return share


def _resolve_amount(name: str, capacity: DeviceCapacity, asked: str | None) -> Quantity:
    try:
        amount = _consumed_amount(capacity, None if asked is None else parse_quantity(asked))
    except CapacityError as error:
        raise CapacityError(f'capacity "{name}": {error}') from None
    if amount.sign() < 0:
        raise CapacityError(f'capacity "{name}": capacity value is negative')
    return amount


def _consumed_amount(capacity: DeviceCapacity, asked: Quantity | None) -> Quantity:
    """Return the consumed amount of a capacity; without a request the default, or everything."""
    policy = capacity.request_policy
    if asked is None:
        usual = policy.default if policy is not None else None
        return parse_quantity(capacity.value if usual is None else usual)
    if policy is None:
        return asked
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up(asked, policy.valid_range)
    larger = (one for one in map(parse_quantity, policy.valid_values) if asked <= one)
    return next(larger, asked)


def _round_up(asked: Quantity, valid: CapacityRequestPolicyRange) -> Quantity:
    """Round a request up to the next step from the minimum."""
    least = _read(valid.min)
    if asked < least:
        return least
    if valid.step is None:
        return asked
    step = parse_quantity(valid.step)
    if _in_milli(valid):
        found = _milli(asked)
        if found is None:
            raise _range_error(f"request {asked} is not a representable milli value")
        rounded = _next_step(found, least.milli_value(), step.milli_value())
        if rounded > _LARGEST:
            raise _range_error(f"rounding request {asked} up to the next step passes the milli-value range")
        return Quantity.of_milli(rounded, step.format)
    if asked > Quantity.of(_LARGEST):
        raise _range_error(f"request {asked} exceeds MaxInt64")
    rounded = _next_step(asked.value(), least.value(), step.value())
    if rounded > _LARGEST:
        raise _range_error(f"rounding request {asked} up to the next step passes MaxInt64")
    return Quantity.of(rounded, step.format)


def _next_step(asked: int, least: int, step: int) -> int:
    return least + -((least - asked) // step) * step


def _range_error(why: str) -> CapacityError:
    return CapacityError(f"capacity request cannot be represented in the device's range arithmetic: {why}")


def _violates(amount: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and amount == parse_quantity(policy.default)):
        return False
    if policy.valid_range is not None:
        return _is_outside(amount, policy.valid_range)
    return bool(policy.valid_values) and all(amount != parse_quantity(one) for one in policy.valid_values)


def _is_outside(amount: Quantity, valid: CapacityRequestPolicyRange) -> bool:
    if valid.max is not None and amount > parse_quantity(valid.max):
        return True
    if valid.step is None:
        return False
    least, step = _read(valid.min), parse_quantity(valid.step)
    if not _in_milli(valid):
        return (amount.value() - least.value()) % step.value() != 0
    found = _milli(amount)
    return found is None or (found - least.milli_value()) % step.milli_value() != 0


def _in_milli(valid: CapacityRequestPolicyRange) -> bool:
    """Return True if all bounds can be represented in thousandths."""
    bounds = [_milli(parse_quantity(one)) for one in (valid.min, valid.max, valid.step) if one is not None]
    return None not in bounds and (valid.step is None or parse_quantity(valid.step).milli_value() >= 1)


def _milli(amount: Quantity) -> int | None:
    found, rest = divmod(amount.nanos, _MILLI_NANOS)
    return found if not rest and abs(found) <= _LARGEST else None


def _read(text: str | None) -> Quantity:
    return Quantity(0) if text is None else parse_quantity(text)
