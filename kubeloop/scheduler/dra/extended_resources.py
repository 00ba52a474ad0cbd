"""Extended resources that device classes stand for: which class, and the claim that a pod's containers need of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kubeloop.api.generated.core_v1 import Container, ContainerExtendedResourceRequest, Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.generated.resource_v1 import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.quota.resource_names import DEVICE_CLASS, is_extended
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.informer.informer import Informer
from kubeloop.scheduler.framework.handle import Handle

IN_MEMORY = "<extended-resources>"  # no name that a claim can have
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


class ClassesByResource:
    """A handler of device classes: which of them stands for an extended resource."""

    def __init__(self, classes: Informer) -> None:
        self.version = 0  # of the names, for whoever keeps what depends on them
        self._classes = classes
        self._explicit: dict[str, str] = {}

    @classmethod
    def of(cls, handle: Handle) -> ClassesByResource:
        """The one of all plugins."""
        found: ClassesByResource | None = handle.shared.get(cls)
        if found is None:
            classes = handle.follow(resource_of_class(DeviceClass))
            found = handle.shared[cls] = cls(classes)
            classes.add_handler(found)
        return found

    def __getitem__(self, resource: str) -> str | None:
        """The class' name; every class stands for a resource that is called after it, too."""
        if resource.startswith(DEVICE_CLASS):
            name = resource.removeprefix(DEVICE_CLASS)
            return name if self._classes.get("", name) is not None else None
        return self._explicit.get(resource)

    def amounts(self, requests: Mapping[str, int]) -> dict[str, int]:
        """Of what a pod requests, the resources that a class stands for."""
        return {
            name: amount for name, amount in requests.items() if amount and is_extended(name) and self[name] is not None
        }

    def on_add(self, _: DeviceClass) -> None:
        self._change()

    def on_update(self, old: DeviceClass, new: DeviceClass) -> None:
        if old.spec.extended_resource_name != new.spec.extended_resource_name:
            self._change()

    def on_delete(self, _: DeviceClass) -> None:
        self._change()

    def _change(self) -> None:
        """Of several classes for one resource the youngest counts: who moves from one to another makes a new one."""
        self.version += 1
        known: list[DeviceClass] = sorted(self._classes.list(), key=lambda one: one.metadata.name, reverse=True)
        known.sort(key=lambda one: str(one.metadata.creation_timestamp))
        named = ((one.spec.extended_resource_name, one.metadata.name) for one in known)
        self._explicit = {resource: name for resource, name in named if resource}


def may_need_devices(requests: Mapping[str, int]) -> bool:
    """Whether a class may stand for something that is requested, now or later."""
    return any(amount and "/" in name and is_extended(name) for name, amount in requests.items())


class Needs(NamedTuple):
    """What containers need of devices: requests of a claim, and which container uses which."""

    requests: Sequence[DeviceRequest]
    mappings: Sequence[ContainerExtendedResourceRequest]


def needs_of(pod: Pod, classes: Mapping[str, str]) -> Needs:
    """For resources with their classes. What only runs before others may use theirs."""
    containers = (*pod.spec.init_containers, *(pod.spec.containers or ()))
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(classes):
        found = _of_resource(containers, len(pod.spec.init_containers), resource, classes[resource])
        requests += found.requests
        mappings += found.mappings
    return Needs(sorted(requests, key=lambda one: one.name), mappings)


def _of_resource(containers: Sequence[Container], init: int, resource: str, kind: str) -> Needs:
    lasting: dict[int, DeviceRequest] = {}
    mappings: list[ContainerExtendedResourceRequest] = []
    brief = [index for index in range(init) if containers[index].restart_policy != "Always"]
    for index, container in enumerate(containers):
        amount = _amount(container, resource)
        if index not in brief and amount:
            lasting[index] = _request(index, container, resource, (kind, amount))
            mappings.append(_mapping(container, resource, lasting[index].name))
    extra: list[DeviceRequest] = []
    users: list[tuple[Container, str]] = []
    for index in brief:
        container = containers[index]
        later = [one for position, one in lasting.items() if position >= index]
        missing = _amount(container, resource)
        for one in later:
            if missing > 0 and one.exactly is not None:
                missing -= one.exactly.count
                users.append((container, one.name))
        if missing > 0:
            extra.append(_request(index, container, resource, (kind, missing)))
            users.append((container, extra[-1].name))
    most = max(extra, key=_count, default=None)
    for container, name in users:
        is_extra = most is not None and any(one.name == name for one in extra)
        mappings.append(_mapping(container, resource, most.name if most is not None and is_extra else name))
    return Needs([*((most,) if most is not None else ()), *lasting.values()], mappings)


def _count(one: DeviceRequest) -> int:
    return one.exactly.count if one.exactly is not None else 0


def _amount(container: Container, resource: str) -> int:
    text = container.resources.requests.get(resource)
    return 0 if text is None else parse_quantity(text).value()


def _request(index: int, container: Container, resource: str, wanted: tuple[str, int]) -> DeviceRequest:
    number = sorted(container.resources.requests).index(resource)
    kind, count = wanted
    exactly = ExactDeviceRequest(device_class_name=kind, allocation_mode="ExactCount", count=count)
    return DeviceRequest(name=f"container-{index}-request-{number}", exactly=exactly)


def _mapping(container: Container, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(container_name=container.name, resource_name=resource, request_name=request)


def new_claim(pod: Pod, uid: str, requests: Sequence[DeviceRequest]) -> ResourceClaim:
    """The claim for a pod's extended resources, as long as there is none; its uid is of no meaning to others."""
    meta = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    made = ObjectMeta(
        namespace=meta.namespace,
        name=IN_MEMORY,
        generate_name=f"{meta.name}-extended-resources-",
        uid=uid,
        owner_references=(owner,),
        annotations={ANNOTATION: "true"},
    )
    return ResourceClaim(metadata=made, spec=ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests))))


def pod_served(claim: ResourceClaim) -> tuple[str, ...]:
    """The uid of the pod whose extended resources a claim is for; an index of claims."""
    if claim.metadata.annotations.get(ANNOTATION) != "true":
        return ()
    owner = controller_of(claim.metadata.owner_references)
    return () if owner is None else (owner.uid,)


def status_of(claim: ResourceClaim, mappings: Sequence[ContainerExtendedResourceRequest]) -> dict[str, Any]:
    """What the pod's status tells of its claim."""
    told = [
        {"containerName": one.container_name, "resourceName": one.resource_name, "requestName": one.request_name}
        for one in mappings
    ]
    return {"extendedResourceClaimStatus": {"requestMappings": told, "resourceClaimName": claim.metadata.name}}
