# SPDX-License-Identifier: Apache-2.0
"""Creates, updates and deletes one Service's load balancer, and records events."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import LoadBalancerStatus, Node, Service
from kubeloop.client.errors import ClientError
from kubeloop.cloud.provider import CloudError, ImplementedElsewhere, LoadBalancers, RetryAfter
from kubeloop.cloud.service_lb.metrics import ServiceLbMetrics
from kubeloop.cloud.service_lb.policy import format_node_names
from kubeloop.cloud.service_lb.service_writer import ServiceWriter
from kubeloop.runtime.events.recorder import EventRecorder

Outcome = Literal["done", "failed"]
NO_NODES = "There are no available nodes for LoadBalancer"
_WRITING = (ApiError, ClientError)  # errors of writes to the API server

log = logging.getLogger(__name__)


class LoadBalancerManager:
    """Load balancer operations of one cluster; raises if a retry is needed."""

    def __init__(
        self,
        balancers: LoadBalancers,
        cluster: str,
        writer: ServiceWriter,
        recorder: EventRecorder,
        instruments: ServiceLbMetrics,
    ) -> None:
        self._balancers = balancers
        self._cluster = cluster
        self._writer = writer
        self._recorder = recorder
        self._instruments = instruments

    async def ensure(self, service: Service, nodes: Sequence[Node]) -> None:
        """Create or update the load balancer."""
        self._tell(service, "EnsuringLoadBalancer", "Ensuring load balancer")
        try:
            await self._writer.add_finalizer(service)
        except _WRITING as error:
            raise CloudError(f"failed to add load balancer cleanup finalizer: {error}") from error
        if not nodes:
            self._warn(service, "UnAvailableLoadBalancer", NO_NODES)
        try:
            status = await self._balancers.ensure(self._cluster, service, nodes)
        except ImplementedElsewhere:
            return
        except RetryAfter as error:
            raise RetryAfter(f"failed to ensure load balancer: {error}", error.seconds) from error
        except Exception as error:
            raise CloudError(f"failed to ensure load balancer: {error}") from error
        self._tell(service, "EnsuredLoadBalancer", "Ensured load balancer")
        await self._write_status(service, status)

    async def clean_up(self, service: Service) -> None:
        """Delete a load balancer that is no longer wanted, then remove the finalizer."""
        try:
            exists = await self._balancers.status(self._cluster, service) is not None
        except Exception as error:
            raise CloudError(f"failed to check if load balancer exists before cleanup: {error}") from error
        if exists:
            self._tell(service, "DeletingLoadBalancer", "Deleting load balancer")
            try:
                await self._balancers.delete(self._cluster, service)
            except ImplementedElsewhere:
                pass
            except Exception as error:
                raise CloudError(f"failed to delete load balancer: {error}") from error
        try:
            await self._writer.remove_finalizer(service)
        except _WRITING as error:
            raise CloudError(f"failed to remove load balancer cleanup finalizer: {error}") from error
        self._tell(service, "DeletedLoadBalancer", "Deleted load balancer")
        await self._write_status(service, LoadBalancerStatus())

    async def delete(self, service: Service) -> None:
        """Delete the load balancer of a Service that is already gone."""
        self._tell(service, "DeletingLoadBalancer", "Deleting load balancer")
        try:
            await self._balancers.delete(self._cluster, service)
        except Exception as error:
            self._warn(service, "DeleteLoadBalancerFailed", f"Error deleting load balancer: {error}")
            raise
        self._tell(service, "DeletedLoadBalancer", "Deleted load balancer")

    async def update_hosts(self, service: Service, nodes: Sequence[Node]) -> Outcome:
        """Update the nodes; after a failure the load balancer must be ensured again."""
        try:
            with self._instruments.measure_update():
                await self._balancers.update_hosts(self._cluster, service, nodes)
        except ImplementedElsewhere:
            return "done"
        except Exception as error:
            return await self._not_updated(service, nodes, error)
        if nodes:
            self._tell(service, "UpdatedLoadBalancer", "Updated load balancer with new hosts")
        else:
            self._warn(service, "UnAvailableLoadBalancer", NO_NODES)
        return "done"

    async def _not_updated(self, service: Service, nodes: Sequence[Node], error: Exception) -> Outcome:
        try:
            if await self._balancers.status(self._cluster, service) is None:
                return "done"  # there is no load balancer to update
        except Exception as unknown:
            log.warning("failed to check if load balancer exists for %s: %s", service.metadata.name, unknown)
        told = (
            f"Error updating load balancer with new hosts {format_node_names(nodes)} "
            f"[node names limited, total number of nodes: {len(nodes)}], error: {error}"
        )
        self._warn(service, "UpdateLoadBalancerFailed", told)
        self._instruments.record_failure()
        return "failed"

    async def _write_status(self, service: Service, status: LoadBalancerStatus) -> None:
        try:
            await self._writer.write_status(service, status)
        except _WRITING as error:
            raise CloudError(f"failed to update load balancer status: {error}") from error

    def record_sync_failure(self, service: Service, error: Exception) -> None:
        """Record an event about a failed sync."""
        self._warn(service, "SyncLoadBalancerFailed", f"Error syncing load balancer: {error}")

    def _tell(self, service: Service, reason: str, message: str) -> None:
        self._recorder.event(service, "Normal", reason, message)

    def _warn(self, service: Service, reason: str, message: str) -> None:
        self._recorder.event(service, "Warning", reason, message)
