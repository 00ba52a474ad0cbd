# SPDX-License-Identifier: Apache-2.0
"""Finds the expected number of pods from the controllers of the existing ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import quote
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.client import Client
from kubeloop.client.errors import NoKindMatchError
from kubeloop.runtime.informer.informer import Informer

# API groups of a kind in former versions of Kubernetes, which references may still name.
_GROUPS = {"Deployment": ("apps", "extensions"), "ReplicaSet": ("apps", "extensions")}


class ScaleUnknownError(Exception):
    """Raised if the expected number cannot be found and a retry would not help."""


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    """Expected number of pods, and the names of pods without a controller."""

    pods: int
    unmanaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ControllerScale:
    """UID and replicas of a controller."""

    uid: str
    replicas: int


class ScaleFinder:
    """Reads the scale of controllers, from caches where possible."""

    def __init__(self, client: Client, workloads: Iterable[Informer]) -> None:
        self._client = client
        self._workloads = {one.resource.kind: one for one in workloads}

    async def expected_pods(self, pods: Sequence[Pod]) -> ExpectedPods:
        """Sum the scale of all controllers of these pods. Raises `ScaleUnknownError` if one is missing."""
        scales: dict[str, int] = {}
        asked: set[str] = set()
        unmanaged: list[str] = []
        for pod in pods:
            reference = controller_of(pod.metadata.owner_references)
            if reference is None:
                unmanaged.append(pod.metadata.name)
            elif reference.uid not in asked:
                asked.add(reference.uid)
                scale = self._known(reference, pod.metadata.namespace)
                if scale is None:
                    scale = await self._asked(reference, pod.metadata.namespace)
                if scale is None:
                    raise ScaleUnknownError(f"found no controllers for pod {quote(pod.metadata.name)}")
                scales[scale.uid] = scale.replicas
        return ExpectedPods(sum(scales.values()), tuple(unmanaged))

    def _known(self, reference: OwnerReference, namespace: str) -> ControllerScale | None:
        """Return the cached scale; a replica set controlled by a deployment has the deployment's scale."""
        found = self._cached(reference, namespace)
        if found is not None and reference.kind == "ReplicaSet":
            manager = controller_of(found.metadata.owner_references)
            if manager is not None and manager.kind == "Deployment":
                found = self._cached(manager, namespace)
        elif reference.kind == "Deployment":
            return None  # controls pods only through replica sets, so the server may know better
        return None if found is None else ControllerScale(found.metadata.uid, found.spec.replicas)

    def _cached(self, reference: OwnerReference, namespace: str) -> Any | None:
        informer = self._workloads.get(reference.kind)
        if informer is None:
            return None
        groups = _GROUPS.get(reference.kind, (informer.resource.group,))
        if reference.api_version.rpartition("/")[0] not in groups:
            return None
        found = informer.get(namespace, reference.name)
        return found if found is not None and found.metadata.uid == reference.uid else None

    async def _asked(self, reference: OwnerReference, namespace: str) -> ControllerScale | None:
        resource = await self._resource_of(reference)
        try:
            scale = await self._client.get(resource, reference.name, namespace, subresource="scale")
        except NotFound:
            if not any(one.name == "scale" and one.kind == "Scale" for one in resource.subresources):
                raise ScaleUnknownError(
                    f"{_group_resource(resource)} does not implement the scale subresource"
                ) from None
            return None
        if scale.metadata.uid != reference.uid:
            return None
        return ControllerScale(scale.metadata.uid, scale.spec.replicas)

    async def _resource_of(self, reference: OwnerReference) -> Resource:
        group, _, version = reference.api_version.rpartition("/")
        try:
            return await self._client.resolve(f"{reference.kind}.{group}/{version}")
        except NoKindMatchError:
            kind, where = quote(reference.kind), quote(reference.api_version)
            raise ScaleUnknownError(f"no matches for kind {kind} in version {where}") from None


def _group_resource(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
