# SPDX-License-Identifier: Apache-2.0
"""LimitRanger: sets defaults from a namespace's LimitRanges, and rejects what is out of range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod, PodSpec
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import aggregate as joined
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.api.strategy.pods.resources import aggregate_container_resources
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation

_ANNOTATION = "kubernetes.io/limit-ranger"
# Resources that the pod-level spec may set, which override the containers' sum.
_POD_LEVEL = ("cpu", "memory")
Amounts = Mapping[str, Quantity]

# Above this, thousandths don't fit in 64 bits, and whole units are compared.
_MAX_MILLI_VALUE = (2**63 - 1) // 1000
_NOTHING = Quantity(0)


class LimitRanger(AdmissionPlugin):
    """Applies LimitRanges to pods and claims."""

    name = "LimitRanger"

    def __init__(self, lookup: Lookup) -> None:
        self._every = lookup.list_objects

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for creates and resizes of pods, and for creates and updates of claims."""
        if resource.group_resource == "pods":
            return (operation, subresource) in (("CREATE", ""), ("UPDATE", "resize"))
        return (
            resource.group_resource == "persistentvolumeclaims"
            and operation in ("CREATE", "UPDATE")
            and not subresource
        )

    def admit(self, attempt: Attributes) -> None:
        """Set default requests and limits of a pod's containers."""
        if isinstance(attempt.obj, Pod):
            for limit_range in self._ranges_for(attempt):
                _apply_defaults(attempt.obj, limit_range)

    def validate(self, attempt: Attributes) -> None:
        """Reject an object that violates a LimitRange."""
        for limit_range in self._ranges_for(attempt):
            found = list(dict.fromkeys(_violations(limit_range, attempt.obj)))
            if found:
                raise attempt.forbidden(joined(found))

    def _ranges_for(self, attempt: Attributes) -> Sequence[LimitRange]:
        if attempt.old_obj is not None and attempt.old_obj.metadata.deletion_timestamp is not None:
            return ()
        return self._every("limitranges", attempt.namespace)


def _violations(limit_range: LimitRange, obj: object) -> Iterator[str]:
    for item in limit_range.spec.limits or ():
        if isinstance(obj, PersistentVolumeClaim):
            if item.type == "PersistentVolumeClaim":
                yield from claim_violations(item, parse_quantities(obj.spec.resources.requests))
        elif isinstance(obj, Pod):
            if item.type == "Container":
                for container in (*(obj.spec.containers or ()), *obj.spec.init_containers):
                    resources = container.resources
                    yield from violations(
                        item, parse_quantities(resources.requests), parse_quantities(resources.limits)
                    )
            elif item.type == "Pod":
                yield from violations(item, _of_pod(obj.spec, "requests"), _of_pod(obj.spec, "limits"))


def _of_pod(spec: PodSpec, field: str) -> Amounts:
    amounts = aggregate_container_resources(spec, field)
    if spec.resources is not None:
        own = parse_quantities(getattr(spec.resources, field))
        amounts.update((name, own[name]) for name in _POD_LEVEL if name in own)
    return amounts


def _apply_defaults(pod: Pod, limit_range: LimitRange) -> None:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for item in limit_range.spec.limits or ():
        if item.type == "Container":
            requests.update(item.default_request)
            limits.update(item.default)
    if not requests and not limits:
        return
    done = [
        text
        for what, containers in (("container", pod.spec.containers or ()), ("init container", pod.spec.init_containers))
        for container in containers
        for text in _complete(container, what, requests, limits)
    ]
    if done:
        note = "LimitRanger plugin set: " + "; ".join(done)
        force_setattr(pod.metadata, "annotations", {**pod.metadata.annotations, _ANNOTATION: note})


def _complete(container: Container, what: str, requests: dict[str, str], limits: dict[str, str]) -> Iterator[str]:
    """Set missing requests and limits of a container; yield descriptions of what was set."""
    resources = container.resources
    open_requests = sorted(requests.keys() - resources.requests.keys())
    open_limits = sorted(limits.keys() - resources.limits.keys())
    force_setattr(
        container,
        "resources",
        msgspec.structs.replace(
            resources,
            requests={**resources.requests, **_only(requests, open_requests)},
            limits={**resources.limits, **_only(limits, open_limits)},
        ),
    )
    if open_requests:
        yield f"{', '.join(open_requests)} request for {what} {container.name}"
    if open_limits:
        yield f"{', '.join(open_limits)} limit for {what} {container.name}"


def _only(amounts: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: amounts[name] for name in names}


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
