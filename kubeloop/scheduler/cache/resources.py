"""What a pod takes of a node, as whole numbers: thousandths of processors, bytes, pieces. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.scalars.wire import Quantity

Whole = dict[str, int]

CPU = "cpu"
MEMORY = "memory"
STORAGE = "ephemeral-storage"
PODS = "pods"
# What a container that asks for nothing is taken to need where nodes are compared, as upstream has it.
_PRESUMED = {CPU: Quantity("100m"), MEMORY: Quantity(str(200 * 1024 * 1024))}


def whole(texts: Mapping[str, str]) -> Whole:
    """Amounts as a node or pod spells them."""
    return {name: _number(name, parse_quantity(text)) for name, text in texts.items()}


def requests(pod: Pod) -> Whole:
    """What the pod requests, with its overhead, and what of it is in effect if that is more."""
    return {name: _number(name, amount) for name, amount in requests_of(pod).items()}


def presumed_requests(pod: Pod) -> Whole:
    """The same, where containers that say nothing of processors or memory are taken to need a little."""
    spec = pod.spec
    filled = replace(
        spec,
        containers=tuple(_presumed(one) for one in spec.containers or ()),
        init_containers=tuple(_presumed(one) for one in spec.init_containers),
    )
    return requests(replace(pod, spec=filled))


def is_scalar(name: str) -> bool:
    """Whether only nodes that have it are compared by it: extended resources, huge pages, attachable volumes."""
    return name not in (CPU, MEMORY, STORAGE, PODS)


def _presumed(container: Container) -> Container:
    given = container.resources.requests
    if CPU in given and MEMORY in given:
        return container
    return replace(container, resources=replace(container.resources, requests={**_PRESUMED, **given}))


def _number(name: str, amount: object) -> int:
    quantity = amount
    return quantity.milli_value() if name == CPU else quantity.value()  # type: ignore[attr-defined,no-any-return]
