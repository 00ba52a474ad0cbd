# SPDX-License-Identifier: Apache-2.0
"""Optional values library."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kubeloop.api.cel.check.types import BOOL, list_of, optional_of, variable
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import function, method
from kubeloop.api.cel.values import NONE, Optional, Timestamp, is_list

V: Final = variable("V")
MAYBE: Final = optional_of(V)
_FIRST_MOMENT: Final = datetime(1, 1, 1, tzinfo=UTC)


def _of_non_zero(value: Any) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def _is_zero(value: Any) -> bool:
    if value is None or value is False:
        return True
    if isinstance(value, (str, bytes, Mapping)) or is_list(value):
        return len(value) == 0
    if isinstance(value, Timestamp):
        return value == _FIRST_MOMENT
    return not value if isinstance(value, (int, float, timedelta)) else False


def _unwrapped(values: list[Optional]) -> list[Any]:
    return [one.value for one in values if one.has_value]


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "optional.of": (function("optional_of", (V,), MAYBE, Optional),),
    "optional.ofNonZeroValue": (function("optional_ofNonZeroValue", (V,), MAYBE, _of_non_zero),),
    "optional.none": (function("optional_none", (), MAYBE, lambda: NONE),),
    "hasValue": (method("optional_hasValue", (MAYBE,), BOOL, lambda one: one.has_value),),
    "value": (method("optional_value", (MAYBE,), V, lambda one: one.value),),
    "or": (method("optional_or_optional", (MAYBE, MAYBE), MAYBE, lambda one, other: one if one.has_value else other),),
    "orValue": (
        method("optional_orValue_value", (MAYBE, V), V, lambda one, other: one.value if one.has_value else other),
    ),
    "optional.unwrap": (function("optional_unwrap", (list_of(MAYBE),), list_of(V), _unwrapped),),
    "unwrapOpt": (method("optional_unwrapOpt", (list_of(MAYBE),), list_of(V), _unwrapped),),
}
