"""Resource lists keep at most thousandths: finer amounts are rounded away from zero."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_UP, Decimal
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.quantity import canonical_quantity
from kubeloop.api.wire import Quantity

_FINER_SUFFIXES = {"n": Decimal("1e-9"), "u": Decimal("1e-6")}


def round_amounts(owner: Any, *fields: str) -> None:
    """Round the named resource lists of a struct; a list that needs none is left as it is."""
    for field in fields:
        amounts: Mapping[str, Quantity] = getattr(owner, field)
        for amount in amounts.values():
            if _is_finer_than_milli(amount):
                force_setattr(owner, field, {name: rounded(each) for name, each in amounts.items()})
                break


def round_requirements(requirements: Any) -> None:
    """The same for a struct with limits and requests."""
    if requirements.limits or requirements.requests:
        round_amounts(requirements, "limits", "requests")


def rounded(amount: Quantity) -> Quantity:
    """A canonical amount, rounded up to thousandths."""
    if not _is_finer_than_milli(amount):
        return amount
    scale = _FINER_SUFFIXES.get(amount[-1])
    value = Decimal(amount[:-1]) * scale if scale else Decimal(amount)
    thousandths = value.scaleb(3).to_integral_value(ROUND_UP)
    return Quantity(canonical_quantity(f"{thousandths:f}{'m' if scale else 'e-3'}"))


def _is_finer_than_milli(amount: str) -> bool:
    # Canonical amounts use the largest suffix that leaves a whole number, so the suffix alone tells.
    return amount[-1] in "nu69" and amount.endswith(("n", "u", "e-6", "e-9"))
