# SPDX-License-Identifier: Apache-2.0
"""Informers of the zone: pass changed objects to it, and flush it once per turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kubeloop.api.generated.core_v1 import Namespace, Pod, PodStatus, Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.dns.zone.cluster_zone import ClusterZone
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory

_SERVICES_PER_TURN = 50  # prepared at the start before other work has its turn


class ZoneInformers:
    """Keeps a zone up to date. Pods are watched only if their records are verified."""

    def __init__(self, zone: ClusterZone, informers: SharedInformerFactory) -> None:
        self._zone = zone
        self._informers = informers
        self._is_flush_due = False
        self._watched: list[Informer] = []
        self._follow(Namespace, zone.set_namespace, zone.delete_namespace)
        self._follow(Service, zone.set_service, zone.delete_service)
        self._follow(EndpointSlice, zone.set_slice, zone.delete_slice)
        if zone.settings.pods == "verified":
            informers.for_resource(Pod).set_transform(reduce_pod)
            self._follow(Pod, zone.set_pod, zone.delete_pod)

    @property
    def unsynced(self) -> list[str]:
        """Resources whose objects are not known yet."""
        return [informer.resource.plural for informer in self._watched if not informer.has_synced]

    async def wait_synced(self) -> None:
        """Wait until all objects are known; from then on the zone answers."""
        for informer in self._watched:
            await informer.wait_synced()
        while self._zone.prepare(_SERVICES_PER_TURN):  # noqa: ASYNC110  # work, not waiting
            await asyncio.sleep(0)
        if not self._zone.is_synced:
            self._zone.mark_synced()

    def _follow(self, kind: type, on_set: Callable[[Any], None], on_delete: Callable[[Any], None]) -> None:
        def set_object(obj: Any) -> None:
            on_set(obj)
            self._request_flush()

        def update_object(old: Any, new: Any) -> None:
            if old is not new:
                set_object(new)

        def delete_object(obj: Any) -> None:
            on_delete(obj)
            self._request_flush()

        informer = self._informers.for_resource(kind)
        informer.add_handler(ResourceEventHandlerFuncs(set_object, update_object, delete_object))
        self._watched.append(informer)

    def _request_flush(self) -> None:
        if self._zone.is_synced and not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        self._zone.flush()


def reduce_pod(pod: Pod) -> Pod:
    """Return a pod with the fields that its records and the cache need; a cluster may have many large ones."""
    metadata = pod.metadata
    return Pod(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            deletion_timestamp=metadata.deletion_timestamp,
        ),
        status=PodStatus(pod_ip=pod.status.pod_ip),
    )
