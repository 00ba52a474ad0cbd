# SPDX-License-Identifier: Apache-2.0
"""Pod-level resources in the status: allocated, and in effect while the pod runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kubeloop.api.generated.core_v1 import Pod, ResourceRequirements
from kubeloop.api.quota.amounts import Amounts
from kubeloop.api.quota.pod_amounts import limits_of
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.sync.containers import app_containers_of

Texts = Mapping[str, Quantity]
# Smaller values cannot be distinguished from none once they are in effect.
_MIN_CPU_REQUEST, _MIN_CPU_LIMIT = parse_quantity("2m"), parse_quantity("10m")


class PodLevelResources(NamedTuple):
    """Pod-level resources as in statuses."""

    allocated: Texts
    pending: ResourceRequirements  # before it runs: what it will have
    running: ResourceRequirements  # in effect for all its containers together


NO_POD_LEVEL_RESOURCES = PodLevelResources({}, ResourceRequirements(), ResourceRequirements())


def pod_level_resources(pod: Pod, requests: Amounts) -> PodLevelResources:
    """Return the pod-level resources of a pod with these total requests; most pods have none."""
    own = pod.spec.resources
    limited = own is not None or any(
        one.resources.limits for one in (*pod.spec.init_containers, *app_containers_of(pod))
    )
    if not requests and not limited:
        return NO_POD_LEVEL_RESOURCES
    limits = limits_of(pod) if limited else {}
    asked, may = _texts(requests), _texts(limits)
    whole = own or ResourceRequirements()
    pending = msgspec.structs.replace(whole, requests=asked, limits=may)
    return PodLevelResources(asked, pending, _in_effect(pod, whole, requests, limits))


def _in_effect(pod: Pod, whole: ResourceRequirements, requests: Amounts, limits: Amounts) -> ResourceRequirements:
    """Return the resources in effect; a limit counts if the pod or each of its containers has one."""
    has, may = dict(whole.requests), dict(whole.limits)
    if requests.get("cpu", _MIN_CPU_REQUEST) > _MIN_CPU_REQUEST:
        has["cpu"] = Quantity(str(requests["cpu"]))
    if "memory" in requests:
        has.setdefault("memory", Quantity(str(requests["memory"])))
    for name in ("cpu", "memory"):
        if name in limits and _is_declared(pod, name):
            may[name] = Quantity(str(limits[name]))
    if limits.get("cpu", _MIN_CPU_LIMIT) <= _MIN_CPU_LIMIT and "cpu" not in whole.limits:
        may.pop("cpu", None)
    return msgspec.structs.replace(whole, requests=has, limits=may)


def _is_declared(pod: Pod, name: str) -> bool:
    if pod.spec.resources is not None and name in pod.spec.resources.limits:
        return True
    return all(name in one.resources.limits for one in (*pod.spec.init_containers, *app_containers_of(pod)))


def _texts(amounts: Amounts) -> dict[str, Quantity]:
    return {name: Quantity(str(amount)) for name, amount in amounts.items()}
