# SPDX-License-Identifier: Apache-2.0
"""Quantity library: parsing, comparison and arithmetic of amounts such as `1.5Gi`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Final

from kubeloop.api.cel.check.types import BOOL, DOUBLE, INT, STRING, Type, opaque
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import argument_traversal_cost, function, method
from kubeloop.api.cel.values import INT_MAX, CelError
from kubeloop.api.scalars.quantity import Quantity, QuantityError, parse_quantity

QUANTITY: Final = opaque("kubernetes.Quantity")
_ONE: Final = 10**9


class CelQuantity:
    """Quantity in expressions; equality compares values."""

    __slots__ = ("amount",)
    cel_type: ClassVar[Type] = QUANTITY

    def __init__(self, amount: Quantity) -> None:
        self.amount = amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelQuantity) and self.amount == other.amount

    def __hash__(self) -> int:
        return hash(self.amount)


@lru_cache(maxsize=256)
def _parsed(text: str) -> CelQuantity | str:
    try:
        return CelQuantity(parse_quantity(text))
    except QuantityError as error:
        return str(error)


def _of_text(text: str) -> CelQuantity:
    found = _parsed(text)
    if isinstance(found, str):
        raise CelError(found)
    return found


def _is_quantity(text: str) -> bool:
    return isinstance(_parsed(text), CelQuantity)


def _is_integer(one: CelQuantity) -> bool:
    return one.amount.nanos % _ONE == 0 and abs(one.amount.nanos // _ONE) <= INT_MAX


def _as_integer(one: CelQuantity) -> int:
    if not _is_integer(one):
        raise CelError("cannot convert value to integer")
    return one.amount.nanos // _ONE


def _compared(one: CelQuantity, other: CelQuantity) -> int:
    return (one.amount.nanos > other.amount.nanos) - (one.amount.nanos < other.amount.nanos)


def _amount_of(value: Any) -> Quantity:
    return value.amount if isinstance(value, CelQuantity) else Quantity.of(value)


def _added(one: CelQuantity, other: Any) -> CelQuantity:
    return CelQuantity(one.amount + _amount_of(other))


def _subtracted(one: CelQuantity, other: Any) -> CelQuantity:
    return CelQuantity(one.amount - _amount_of(other))


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "quantity": (function("string_to_quantity", (STRING,), QUANTITY, _of_text, argument_traversal_cost(0)),),
    "isQuantity": (function("is_quantity_string", (STRING,), BOOL, _is_quantity, argument_traversal_cost(0)),),
    "sign": (function("quantity_sign", (QUANTITY,), INT, lambda one: one.amount.sign()),),
    "isGreaterThan": (
        method("quantity_is_greater_than", (QUANTITY, QUANTITY), BOOL, lambda one, other: _compared(one, other) > 0),
    ),
    "isLessThan": (
        method("quantity_is_less_than", (QUANTITY, QUANTITY), BOOL, lambda one, other: _compared(one, other) < 0),
    ),
    "compareTo": (method("quantity_compare_to", (QUANTITY, QUANTITY), INT, _compared),),
    "asApproximateFloat": (method("quantity_get_float", (QUANTITY,), DOUBLE, lambda one: float(one.amount)),),
    "asInteger": (method("quantity_get_int", (QUANTITY,), INT, _as_integer),),
    "isInteger": (method("quantity_is_integer", (QUANTITY,), BOOL, _is_integer),),
    "add": (
        method("quantity_add", (QUANTITY, QUANTITY), QUANTITY, _added),
        method("quantity_add_int", (QUANTITY, INT), QUANTITY, _added),
    ),
    "sub": (
        method("quantity_sub", (QUANTITY, QUANTITY), QUANTITY, _subtracted),
        method("quantity_sub_int", (QUANTITY, INT), QUANTITY, _subtracted),
    ),
}
