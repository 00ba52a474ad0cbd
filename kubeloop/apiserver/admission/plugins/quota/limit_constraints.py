"""Constraints of a LimitRange: minimum, maximum and limit/request ratio."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubeloop.api.generated.core_v1 import LimitRangeItem
from kubeloop.api.scalars.quantity import Quantity, parse_quantity

Amounts = Mapping[str, Quantity]

# Above this, thousandths don't fit in 64 bits, and whole units are compared.
_MAX_MILLI_VALUE = (2**63 - 1) // 1000
_NOTHING = Quantity(0)


def parse_quantities(texts: Mapping[str, str]) -> Amounts:
    """Parse the quantities of a resource list."""
    return {name: parse_quantity(text) for name, text in texts.items()}


def violations(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Yield the messages for requests and limits of one container or pod that violate the item."""
    for name, text in item.min.items():
        yield from _below(item.type, name, text, requests, limits)
    for name, text in item.max.items():
        yield from _above(item.type, name, text, requests, limits)
    for name, text in item.max_limit_request_ratio.items():
        yield from _ratio_exceeded(item.type, name, text, requests, limits)


def claim_violations(item: LimitRangeItem, requests: Amounts) -> Iterator[str]:
    """Yield the messages for a claim's requests that violate the item."""
    for name, text in item.min.items():
        yield from _below(item.type, name, text, requests, {})
    for name, text in item.max.items():
        yield from _request_above(item.type, name, text, requests)


def _below(kind: str, name: str, text: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    least = f"minimum {name} usage per {kind} is {text}"
    request, limit = requests.get(name), limits.get(name)
    asked, capped, bound = _comparable(request, limit, text)
    if request is None:
        yield f"{least}.  No request is specified"
    elif asked < bound:
        yield f"{least}, but request is {request}"
    elif limit is not None and capped < bound:
        yield f"{least}, but limit is {limit}"


def _above(kind: str, name: str, text: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    most = f"maximum {name} usage per {kind} is {text}"
    request, limit = requests.get(name), limits.get(name)
    asked, capped, bound = _comparable(request, limit, text)
    if limit is None:
        yield f"{most}.  No limit is specified"
    elif capped > bound:
        yield f"{most}, but limit is {limit}"
    elif request is not None and asked > bound:
        yield f"{most}, but request is {request}"


def _request_above(kind: str, name: str, text: str, requests: Amounts) -> Iterator[str]:
    most = f"maximum {name} usage per {kind} is {text}"
    request = requests.get(name)
    asked, _, bound = _comparable(request, None, text)
    if request is None:
        yield f"{most}.  No request is specified"
    elif asked > bound:
        yield f"{most}, but request is {request}"


def _ratio_exceeded(kind: str, name: str, text: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    widest = f"{name} max limit to request ratio per {kind} is {text}"
    asked, capped, _ = _comparable(requests.get(name), limits.get(name), text)
    if not asked:
        yield f"{widest}, but no request is specified or request is 0"
    elif not capped:
        yield f"{widest}, but no limit is specified or limit is 0"
    elif capped / asked > float(parse_quantity(text)):
        yield f"{widest}, but provided ratio is {capped / asked:.6f}"


def _comparable(request: Quantity | None, limit: Quantity | None, bound: str) -> tuple[int, int, int]:
    """Return all three values in thousandths, or in units if one of them is too large for that."""
    values = (request or _NOTHING, limit or _NOTHING, parse_quantity(bound))
    if all(value.value() <= _MAX_MILLI_VALUE for value in values):
        first, second, third = (value.milli_value() for value in values)
    else:
        first, second, third = (value.value() for value in values)
    return first, second, third
