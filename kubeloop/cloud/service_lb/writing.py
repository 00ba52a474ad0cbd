"""What is written to a service for its load balancer: through its status, which is all that the account may patch."""

from __future__ import annotations

from typing import Any

from kubeloop.api import codec
from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import LoadBalancerStatus, Service
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.client import Client
from kubeloop.cloud.service_lb.policy import FINALIZER


class ServiceWriter:
    """Every patch demands the uid: a service that was made anew under the name is another."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def add_finalizer(self, service: Service) -> None:
        if FINALIZER not in service.metadata.finalizers:
            await self._patch(service, {"metadata": {"finalizers": [FINALIZER]}})

    async def remove_finalizer(self, service: Service) -> None:
        if FINALIZER in service.metadata.finalizers:
            try:
                await self._patch(service, {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}})
            except NotFound:
                return

    async def write_status(self, service: Service, status: LoadBalancerStatus) -> None:
        """A service that is gone needs none."""
        if service.status.load_balancer == status:
            return
        ingress = [codec.to_plain(one) for one in status.ingress] or None
        try:
            await self._patch(service, {"status": {"loadBalancer": {"ingress": ingress}}})
        except NotFound:
            return

    async def _patch(self, service: Service, patch: dict[str, Any]) -> None:
        meta = service.metadata
        patch = {**patch, "metadata": {"uid": meta.uid, **patch.get("metadata", {})}}
        await self._client.patch(Service, meta.name, patch, meta.namespace, type=STRATEGIC_PATCH, subresource="status")
