# SPDX-License-Identifier: Apache-2.0
"""Rounding of resource lists to thousandths, away from zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.scalars.quantity import MILLI, parse_quantity
from kubeloop.api.scalars.wire import Quantity


def round_amounts(owner: Any, *fields: str) -> None:
    """Round the named resource lists of a struct; a list that needs no rounding is left unchanged."""
    for field in fields:
        amounts: Mapping[str, Quantity] = getattr(owner, field)
        for amount in amounts.values():
            if _is_finer_than_milli(amount):
                force_setattr(owner, field, {name: round_amount(each) for name, each in amounts.items()})
                break


def round_requirements(requirements: Any) -> None:
    """Round the limits and requests of a struct."""
    if requirements.limits or requirements.requests:
        round_amounts(requirements, "limits", "requests")


def round_amount(amount: Quantity) -> Quantity:
    """Return a canonical amount, rounded up to thousandths."""
    if not _is_finer_than_milli(amount):
        return amount
    return Quantity(parse_quantity(amount).rounded_up(MILLI))


def _is_finer_than_milli(amount: str) -> bool:
    # Canonical amounts use the largest suffix that leaves a whole number, so the suffix alone tells.
    return amount[-1] in "nu69" and amount.endswith(("n", "u", "e-6", "e-9"))
