# SPDX-License-Identifier: Apache-2.0
"""Creates the Service kube-dns with its EndpointSlices, and restores them when they change.

Watches: the Service kube-dns and its EndpointSlices.
Owns: both, unless the Service has a selector: then another program serves DNS from pods.
Writes: creates, applies and deletes them.
Wakes itself: never.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.client import Client
from kubeloop.dns.kube_dns_service import MANAGED_BY_LABEL, MANAGER, NAME, NAMESPACE
from kubeloop.dns.zone.service_objects import SERVICE_NAME_LABEL
from kubeloop.runtime.app import LoopContext
from kubeloop.runtime.controller import Controller, TerminalError
from kubeloop.runtime.informer.informer import Informer

CONTROLLER = "kube-dns-service"
_KEY = NAME  # the only one


def wire_kube_dns(context: LoopContext, service: Service, slices: Sequence[EndpointSlice]) -> Controller[str]:
    """Build the controller for objects of `kube_dns_objects`."""
    services = context.informers.for_resource(Service, namespace=NAMESPACE, fields=f"metadata.name={NAME}")
    endpoint_slices = context.informers.for_resource(
        EndpointSlice, namespace=NAMESPACE, labels=f"{SERVICE_NAME_LABEL}={NAME}"
    )
    reconciler = Reconciler(context.client, services, endpoint_slices, (service, tuple(slices)))
    controller: Controller[str] = Controller(
        CONTROLLER, reconciler.reconcile, context.clock, workers=1, telemetry=context.telemetry
    )
    controller.watches(services, lambda _: (_KEY,))
    controller.watches(endpoint_slices, lambda _: (_KEY,))
    controller.queue.add(_KEY)  # there may be no object that would enqueue it
    return controller


class Reconciler:
    """Keeps the Service and its slices as they should be."""

    def __init__(
        self,
        client: Client,
        services: Informer,
        endpoint_slices: Informer,
        desired: tuple[Service, tuple[EndpointSlice, ...]],
    ) -> None:
        self._client = client
        self._services = services
        self._endpoint_slices = endpoint_slices
        self._service, self._slices = desired

    async def reconcile(self, _: str) -> None:
        """Create or restore the objects, and delete slices of ours that are not needed any more."""
        found: Service | None = self._services.get(NAMESPACE, NAME)
        if found is not None and found.spec.selector:
            raise TerminalError(f"the Service {NAMESPACE}/{NAME} has a selector: pods serve the cluster's DNS")
        if found is None:
            await self._client.create(self._service)
        elif found.spec.cluster_ip != self._service.spec.cluster_ip:
            raise TerminalError(f"the Service {NAMESPACE}/{NAME} has the cluster IP {found.spec.cluster_ip}")
        elif not is_service_current(found, self._service):
            await self._client.apply(self._service, manager=MANAGER, force=True)
        for desired in self._slices:
            existing = self._endpoint_slices.get(NAMESPACE, desired.metadata.name)
            if existing is None or not is_slice_current(existing, desired):
                await self._client.apply(desired, manager=MANAGER, force=True)
        await self._delete_others()

    async def _delete_others(self) -> None:
        names = {one.metadata.name for one in self._slices}
        for one in self._endpoint_slices.list(NAMESPACE):
            if one.metadata.labels.get(MANAGED_BY_LABEL) == MANAGER and one.metadata.name not in names:
                try:
                    await self._client.delete(EndpointSlice, one.metadata.name, NAMESPACE)
                except NotFound:
                    continue


def is_service_current(found: Service, desired: Service) -> bool:
    """Return True if a Service has the desired ports, labels and annotations."""
    ports = [(one.name, one.protocol, one.port, one.target_port) for one in found.spec.ports]
    wanted = [(one.name, one.protocol, one.port, one.target_port) for one in desired.spec.ports]
    return ports == wanted and _has_metadata(found, desired)


def is_slice_current(found: EndpointSlice, desired: EndpointSlice) -> bool:
    """Return True if a slice has the desired endpoints, ports and labels."""
    return (
        [(one.addresses, one.conditions.ready) for one in found.endpoints or ()]
        == [(one.addresses, one.conditions.ready) for one in desired.endpoints or ()]
        and [(one.name, one.protocol, one.port) for one in found.ports or ()]
        == [(one.name, one.protocol, one.port) for one in desired.ports or ()]
        and _has_metadata(found, desired)
    )


def _has_metadata(found: Service | EndpointSlice, desired: Service | EndpointSlice) -> bool:
    return (
        desired.metadata.labels.items() <= found.metadata.labels.items()
        and desired.metadata.annotations.items() <= found.metadata.annotations.items()
    )
