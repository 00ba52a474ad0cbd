# SPDX-License-Identifier: Apache-2.0
"""Writes a Service's status and finalizer through its status subresource, which is all that the account may patch."""

from __future__ import annotations

from typing import Any

from kubeloop.api import codec
from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import LoadBalancerStatus, Service
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.client import Client
from kubeloop.cloud.service_lb.policy import FINALIZER


class ServiceWriter:
    """Writer of Services; every patch requires the UID, so that a recreated Service is not changed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def add_finalizer(self, service: Service) -> None:
        """Add the finalizer."""
        if FINALIZER not in service.metadata.finalizers:
            await self._patch(service, {"metadata": {"finalizers": [FINALIZER]}})

    async def remove_finalizer(self, service: Service) -> None:
        """Remove the finalizer."""
        if FINALIZER in service.metadata.finalizers:
            try:
                await self._patch(service, {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}})
            except NotFound:
                return

    async def write_status(self, service: Service, status: LoadBalancerStatus) -> None:
        """Write the status if it has changed; a deleted Service is ignored."""
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
