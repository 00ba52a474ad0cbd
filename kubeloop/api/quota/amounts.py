# SPDX-License-Identifier: Apache-2.0
"""Resource lists as quantities, and the arithmetic that quotas need."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kubeloop.api.scalars.quantity import Quantity, parse_quantity

Amounts = dict[str, Quantity]

ZERO = Quantity(0)
ONE = Quantity.of(1)


def amounts_of(texts: Mapping[str, str]) -> Amounts:
    """Parse the quantities of a resource list."""
    return {name: parse_quantity(text) for name, text in texts.items()}


def add(amounts: Amounts, more: Amounts) -> Amounts:
    """Return the sum of two resource lists."""
    total = dict(amounts)
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def subtract_non_negative(after: Amounts, before: Amounts) -> Amounts:
    """Return the increase of each amount; zero if it decreased."""
    return {name: max(amount - before.get(name, ZERO), ZERO) for name, amount in after.items()}


def mask(amounts: Amounts, names: Collection[str]) -> Amounts:
    """Return the resource list reduced to some names."""
    return {name: amount for name, amount in amounts.items() if name in names}


def maximum(*lists: Amounts) -> Amounts:
    """Return the largest amount of each name in any of the lists."""
    most: Amounts = {}
    for amounts in lists:
        for name, amount in amounts.items():
            if name not in most or amount > most[name]:
                most[name] = amount
    return most


def format_amounts(amounts: Amounts) -> str:
    """Format a resource list for messages, sorted by name."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))
