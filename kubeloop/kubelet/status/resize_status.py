"""What a pod as a whole was given, and what it has of that while it runs, as its status says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kubeloop.api.generated.core_v1 import Pod, ResourceRequirements
from kubeloop.api.quota.amounts import Amounts
from kubeloop.api.quota.pod_amounts import limits_of
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.sync.containers import regular_of

Texts = Mapping[str, Quantity]
# Less can't be told from nothing once it is in effect.
_LEAST_CPU_REQUEST, _LEAST_CPU_LIMIT = parse_quantity("2m"), parse_quantity("10m")


class PodSizes(NamedTuple):
    """Texts as statuses have them."""

    allocated: Texts
    pending: ResourceRequirements  # before it runs: all that it will have
    running: ResourceRequirements  # what is in effect for all its containers together


NO_SIZES = PodSizes({}, ResourceRequirements(), ResourceRequirements())


def pod_sizes(pod: Pod, requests: Amounts) -> PodSizes:
    """The sizes of a pod that asks for so much, all together; most ask for nothing."""
    own = pod.spec.resources
    limited = own is not None or any(one.resources.limits for one in (*pod.spec.init_containers, *regular_of(pod)))
    if not requests and not limited:
        return NO_SIZES
    limits = limits_of(pod) if limited else {}
    asked, may = _texts(requests), _texts(limits)
    whole = own or ResourceRequirements()
    pending = msgspec.structs.replace(whole, requests=asked, limits=may)
    return PodSizes(asked, pending, _in_effect(pod, whole, requests, limits))


def _in_effect(pod: Pod, whole: ResourceRequirements, requests: Amounts, limits: Amounts) -> ResourceRequirements:
    """A limit counts for the whole if the pod or each of its containers has one."""
    has, may = dict(whole.requests), dict(whole.limits)
    if requests.get("cpu", _LEAST_CPU_REQUEST) > _LEAST_CPU_REQUEST:
        has["cpu"] = Quantity(str(requests["cpu"]))
    if "memory" in requests:
        has.setdefault("memory", Quantity(str(requests["memory"])))
    for name in ("cpu", "memory"):
        if name in limits and _is_declared(pod, name):
            may[name] = Quantity(str(limits[name]))
    if limits.get("cpu", _LEAST_CPU_LIMIT) <= _LEAST_CPU_LIMIT and "cpu" not in whole.limits:
        may.pop("cpu", None)
    return msgspec.structs.replace(whole, requests=has, limits=may)


def _is_declared(pod: Pod, name: str) -> bool:
    if pod.spec.resources is not None and name in pod.spec.resources.limits:
        return True
    return all(name in one.resources.limits for one in (*pod.spec.init_containers, *regular_of(pod)))


def _texts(amounts: Amounts) -> dict[str, Quantity]:
    return {name: Quantity(str(amount)) for name, amount in amounts.items()}
