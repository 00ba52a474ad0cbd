# SPDX-License-Identifier: Apache-2.0
"""Conversion of claims, their templates and slices between resource.k8s.io/v1beta1 and v1, the storage version.

v1beta1 has the fields of an exact request in the request itself, and the properties of a device in its `basic` part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubeloop.api.conversions.same_fields import Plain, to_version

_PACKAGE: Final = "io.k8s.api.resource."
_EXACT: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)


def _nest_requests(spec: Plain) -> None:
    for request in _each(spec, "devices", "requests"):
        exactly = {name: request.pop(name) for name in _EXACT if name in request}
        if any(exactly.values()) or "adminAccess" in exactly:  # which is significant even if false
            request["exactly"] = exactly


def _flatten_requests(spec: Plain) -> None:
    for request in _each(spec, "devices", "requests"):
        request |= request.pop("exactly", {})


def _flatten_devices(plain: Plain) -> None:
    for device in _each(plain, "spec", "devices"):
        device |= device.pop("basic", None) or {}


def _nest_devices(plain: Plain) -> None:
    for device in _each(plain, "spec", "devices"):
        name = device.pop("name", "")
        basic = dict(device)
        device.clear()
        device |= {"name": name, "basic": basic}


def _each(plain: Plain, outer: str, inner: str) -> list[Plain]:
    return (plain.get(outer) or {}).get(inner) or []


def _of_claim(change: Callable[[Plain], None]) -> Callable[[Plain], None]:
    return lambda plain: change(plain.get("spec", {}))


def _of_template(change: Callable[[Plain], None]) -> Callable[[Plain], None]:
    return lambda plain: change(plain.get("spec", {}).get("spec", {}))


Convert = Callable[[Any], Any]
claim_to_v1: Convert = to_version(_PACKAGE + "v1.ResourceClaim", _of_claim(_nest_requests))
claim_to_v1beta1: Convert = to_version(_PACKAGE + "v1beta1.ResourceClaim", _of_claim(_flatten_requests))
template_to_v1: Convert = to_version(_PACKAGE + "v1.ResourceClaimTemplate", _of_template(_nest_requests))
template_to_v1beta1: Convert = to_version(_PACKAGE + "v1beta1.ResourceClaimTemplate", _of_template(_flatten_requests))
slice_to_v1: Convert = to_version(_PACKAGE + "v1.ResourceSlice", _flatten_devices)
slice_to_v1beta1: Convert = to_version(_PACKAGE + "v1beta1.ResourceSlice", _nest_devices)
