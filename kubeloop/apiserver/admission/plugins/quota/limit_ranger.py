"""LimitRanger: sets defaults from a namespace's LimitRanges, and rejects what is out of range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Container, LimitRange, PersistentVolumeClaim, Pod, PodSpec
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import aggregate as joined
from kubeloop.api.strategy.pods.resources import aggregate_container_resources
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation
from kubeloop.apiserver.admission.plugins.quota.limit_constraints import (
    Amounts,
    claim_violations,
    parse_quantities,
    violations,
)

_ANNOTATION = "kubernetes.io/limit-ranger"
# Resources that the pod-level spec may set, which override the containers' sum.
_POD_LEVEL = ("cpu", "memory")


class LimitRanger(AdmissionPlugin):
    """Applies LimitRanges to pods and claims."""

    name = "LimitRanger"

    def __init__(self, lookup: Lookup) -> None:
        self._every = lookup.every

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for creates and resizes of pods, and for creates and updates of claims."""
        if resource.qualified == "pods":
            return (operation, subresource) in (("CREATE", ""), ("UPDATE", "resize"))
        return resource.qualified == "persistentvolumeclaims" and operation in ("CREATE", "UPDATE") and not subresource

    def admit(self, attempt: Attributes) -> None:
        """Set default requests and limits of a pod's containers."""
        if isinstance(attempt.obj, Pod):
            for limit_range in self._ranges_for(attempt):
                _apply_defaults(attempt.obj, limit_range)

    def check(self, attempt: Attributes) -> None:
        """Reject an object that violates a LimitRange."""
        for limit_range in self._ranges_for(attempt):
            found = list(dict.fromkeys(_violations(limit_range, attempt.obj)))
            if found:
                raise attempt.forbidden(joined(found))

    def _ranges_for(self, attempt: Attributes) -> Sequence[LimitRange]:
        if attempt.old is not None and attempt.old.metadata.deletion_timestamp is not None:
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
