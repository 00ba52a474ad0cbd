# SPDX-License-Identifier: Apache-2.0
"""Resource amounts as integers: millicores of cpu, bytes, units. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.scalars.wire import Quantity

ResourceAmounts = dict[str, int]

CPU = "cpu"
MEMORY = "memory"
STORAGE = "ephemeral-storage"
PODS = "pods"
# Defaults for containers without requests when scoring, as upstream.
_DEFAULT_REQUESTS = {CPU: Quantity("100m"), MEMORY: Quantity(str(200 * 1024 * 1024))}


def to_amounts(texts: Mapping[str, str]) -> ResourceAmounts:
    """Convert quantities as written in a node or pod to integers."""
    return {name: _number(name, parse_quantity(text)) for name, text in texts.items()}


def pod_requests(pod: Pod) -> ResourceAmounts:
    """Return the requests of a pod including overhead, or the amounts in effect where these are larger."""
    return {name: _number(name, amount) for name, amount in requests_of(pod).items()}


def nonzero_pod_requests(pod: Pod) -> ResourceAmounts:
    """Return the requests with defaults for containers that request no cpu or memory."""
    spec = pod.spec
    filled = replace(
        spec,
        containers=tuple(_presumed(one) for one in spec.containers or ()),
        init_containers=tuple(_presumed(one) for one in spec.init_containers),
    )
    return pod_requests(replace(pod, spec=filled))


def is_scalar_resource(name: str) -> bool:
    """Return True for extended resources, huge pages and attachable volumes; only nodes with these count."""
    return name not in (CPU, MEMORY, STORAGE, PODS)


def _presumed(container: Container) -> Container:
    given = container.resources.requests
    if CPU in given and MEMORY in given:
        return container
    return replace(container, resources=replace(container.resources, requests={**_DEFAULT_REQUESTS, **given}))


def _number(name: str, amount: object) -> int:
    quantity = amount
    return quantity.milli_value() if name == CPU else quantity.value()  # type: ignore[attr-defined,no-any-return]
