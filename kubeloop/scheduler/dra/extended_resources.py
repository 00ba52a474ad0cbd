# SPDX-License-Identifier: Apache-2.0
"""Extended resources backed by device classes: the class of a resource, and the claim for a pod's containers."""

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
from kubeloop.api.quota.resource_names import DEVICE_CLASS, is_extended_resource
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.informer.informer import Informer
from kubeloop.scheduler.framework.handle import Handle

IN_MEMORY_CLAIM_NAME = "<extended-resources>"  # not a valid claim name
EXTENDED_RESOURCE_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


class ExtendedResourceCache:
    """Informer handler of device classes: maps extended resources to device classes."""

    def __init__(self, classes: Informer) -> None:
        self.version = 0  # incremented on changes, for caches that depend on the map
        self._classes = classes
        self._explicit: dict[str, str] = {}

    @classmethod
    def shared_by(cls, handle: Handle) -> ExtendedResourceCache:
        """Return the instance shared by all plugins."""
        found: ExtendedResourceCache | None = handle.shared.get(cls)
        if found is None:
            classes = handle.watch_resource(resource_of_class(DeviceClass))
            found = handle.shared[cls] = cls(classes)
            classes.add_handler(found)
        return found

    def __getitem__(self, resource: str) -> str | None:
        """Return the class name of a resource; each class also has an implicit extended resource name."""
        if resource.startswith(DEVICE_CLASS):
            name = resource.removeprefix(DEVICE_CLASS)
            return name if self._classes.get("", name) is not None else None
        return self._explicit.get(resource)

    def filter_backed(self, requests: Mapping[str, int]) -> dict[str, int]:
        """Return the requested resources that are backed by a device class."""
        return {
            name: amount
            for name, amount in requests.items()
            if amount and is_extended_resource(name) and self[name] is not None
        }

    def on_add(self, _: DeviceClass) -> None:
        """Rebuild the map."""
        self._rebuild()

    def on_update(self, old: DeviceClass, new: DeviceClass) -> None:
        """Rebuild the map if the extended resource name has changed."""
        if old.spec.extended_resource_name != new.spec.extended_resource_name:
            self._rebuild()

    def on_delete(self, _: DeviceClass) -> None:
        """Rebuild the map."""
        self._rebuild()

    def _rebuild(self) -> None:
        """Rebuild the map; of several classes for a resource the newest wins, which supports migrations."""
        self.version += 1
        known: list[DeviceClass] = sorted(self._classes.list(), key=lambda one: one.metadata.name, reverse=True)
        known.sort(key=lambda one: str(one.metadata.creation_timestamp))
        named = ((one.spec.extended_resource_name, one.metadata.name) for one in known)
        self._explicit = {resource: name for resource, name in named if resource}


def may_be_device_backed(requests: Mapping[str, int]) -> bool:
    """Return True if a requested resource may be backed by a device class, now or later."""
    return any(amount and "/" in name and is_extended_resource(name) for name, amount in requests.items())


class ExtendedResourceRequests(NamedTuple):
    """Device requests of a claim, and the mapping of containers to requests."""

    requests: Sequence[DeviceRequest]
    mappings: Sequence[ContainerExtendedResourceRequest]


def device_requests_of(pod: Pod, classes: Mapping[str, str]) -> ExtendedResourceRequests:
    """Return the device requests for resources with their classes; init containers reuse later containers' devices."""
    containers = (*pod.spec.init_containers, *(pod.spec.containers or ()))
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(classes):
        found = _of_resource(containers, len(pod.spec.init_containers), resource, classes[resource])
        requests += found.requests
        mappings += found.mappings
    return ExtendedResourceRequests(sorted(requests, key=lambda one: one.name), mappings)


def _of_resource(containers: Sequence[Container], init: int, resource: str, kind: str) -> ExtendedResourceRequests:
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
    return ExtendedResourceRequests([*((most,) if most is not None else ()), *lasting.values()], mappings)


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


def new_extended_resource_claim(pod: Pod, uid: str, requests: Sequence[DeviceRequest]) -> ResourceClaim:
    """Return the in-memory claim for a pod's extended resources; its uid is only used locally."""
    meta = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    made = ObjectMeta(
        namespace=meta.namespace,
        name=IN_MEMORY_CLAIM_NAME,
        generate_name=f"{meta.name}-extended-resources-",
        uid=uid,
        owner_references=(owner,),
        annotations={EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
    )
    return ResourceClaim(metadata=made, spec=ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests))))


def index_by_pod_uid(claim: ResourceClaim) -> tuple[str, ...]:
    """Return the uid of the pod that an extended resource claim is for; index function for claims."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return ()
    owner = controller_of(claim.metadata.owner_references)
    return () if owner is None else (owner.uid,)


def extended_resource_claim_status(
    claim: ResourceClaim, mappings: Sequence[ContainerExtendedResourceRequest]
) -> dict[str, Any]:
    """Return the pod status fields that refer to the claim."""
    told = [
        {"containerName": one.container_name, "resourceName": one.resource_name, "requestName": one.request_name}
        for one in mappings
    ]
    return {"extendedResourceClaimStatus": {"requestMappings": told, "resourceClaimName": claim.metadata.name}}
