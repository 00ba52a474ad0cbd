# SPDX-License-Identifier: Apache-2.0
"""Defaulting of pod-level resources from those of the containers."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, PodSpec, ResourceRequirements
from kubeloop.api.scalars import wire
from kubeloop.api.scalars.quantity import Quantity, parse_quantity

Amounts = dict[str, Quantity]


def default_pod_level_resources(spec: PodSpec) -> None:
    """Complete the pod-level requests and limits, if any are set.

    The order matters: limits of huge pages become requests, and requests bound the limits that are derived last.
    """
    whole = spec.resources
    if whole is None or not (whole.requests or whole.limits):
        return
    requests, limits = dict(whole.requests), dict(whole.limits)
    container_limits = aggregate_container_resources(spec, "limits")
    for name, amount in container_limits.items():
        if _is_huge_page(name) and name not in requests:
            limits.setdefault(name, _text(amount))
    for name, amount in aggregate_container_resources(spec, "requests").items():
        if name in ("cpu", "memory"):
            requests.setdefault(name, _text(amount))
    for name, text in limits.items():
        if _is_supported(name):
            requests.setdefault(name, text)
    for name in _limited_everywhere(spec, [name for name in requests if _is_supported(name) and name not in limits]):
        limits[name] = _text(max(parse_quantity(requests[name]), container_limits[name]))
    force_setattr(spec, "resources", ResourceRequirements(claims=whole.claims, limits=limits, requests=requests))


def aggregate_container_resources(spec: PodSpec, field: str) -> Amounts:
    """Return the peak demand of all containers together.

    Init containers run one after another beside the sidecars started before them, and then the sidecars stay.
    """
    running: Amounts = {}
    for container in spec.containers or ():
        _add(running, _amounts(container, field))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        needed = _amounts(container, field)
        if container.restart_policy == "Always":
            _add(running, needed)
            _add(sidecars, needed)
            needed = dict(sidecars)
        else:
            _add(needed, sidecars)
        _raise_to(peak, needed)
    _raise_to(running, peak)
    return running


def _limited_everywhere(spec: PodSpec, names: list[str]) -> Iterable[str]:
    containers: tuple[Container | EphemeralContainer, ...] = (
        *spec.init_containers,
        *(spec.containers or ()),
        *spec.ephemeral_containers,
    )
    return [name for name in names if containers and all(name in each.resources.limits for each in containers)]


def _amounts(container: Container, field: str) -> Amounts:
    return {name: parse_quantity(text) for name, text in getattr(container.resources, field).items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _is_huge_page(name: str) -> bool:
    return name.startswith("hugepages-")


def _is_supported(name: str) -> bool:
    return name in ("cpu", "memory") or _is_huge_page(name)


def _text(amount: Quantity) -> wire.Quantity:
    return wire.Quantity(amount)
