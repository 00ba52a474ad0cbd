# SPDX-License-Identifier: Apache-2.0
"""Answers each request about a driver's device pools once, with total and available counts.

requests, slices, claims, taint rules ──▶ answer: the pools with their counts ──▶ status, written once
                                            └── views: partitions, shares             later: the request is deleted

Watches: requests; slices, claims and taint rules, as input.
Owns: the status of requests.
Writes: that status; deletes requests an hour after they were answered, or a day after they were created.
Wakes itself: when a request expires.
Differs from upstream: a request about an incomplete pool waits for its driver's next slice, where upstream tries five
  times within a second and then no more; requests are deleted when they expire, not up to ten minutes later.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from kubeloop.api.errors import Conflict, Invalid, NotFound
from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.generated.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from kubeloop.api.generated.resource_v1alpha3 import ResourcePoolStatusRequest
from kubeloop.api.requests import MERGE_PATCH
from kubeloop.api.scalars.times import parse_time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.resourcepoolstatusrequest.pool_status import (
    is_incomplete,
    pool_allocations,
    pools_of,
    status_of,
)
from kubeloop.runtime.controller import Controller, Result, TerminalError
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "resourcepoolstatusrequest-controller"
QUEUE: Final = "resourcepoolstatusrequest"
WORKERS: Final = 1  # as upstream
TAINT_RULES: Final = "DRADeviceTaintRules"  # feature gate
BY_DRIVER: Final = "driver"
ANSWERED_TTL: Final = timedelta(hours=1)
PENDING_TTL: Final = timedelta(hours=24)
CLOCK_RESOLUTION: Final = timedelta(seconds=1)  # times have whole seconds, and a request keeps all of its last one
_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))  # histogram buckets
_PREFIX: Final = "resourcepoolstatusrequest_controller_"


def wire(context: ControllerContext) -> Controller[str]:
    """Build the controller and register its event handlers."""
    requests = context.informers.for_resource(resource_of_class(ResourcePoolStatusRequest))
    requests.add_indexer(BY_DRIVER, lambda one: (one.spec.driver,) if one.status is None else ())
    slices = context.informers.for_resource(resource_of_class(ResourceSlice))
    slices.add_indexer(BY_DRIVER, lambda one: (one.spec.driver,))
    claims = context.informers.for_resource(resource_of_class(ResourceClaim))
    claims.add_indexer(BY_DRIVER, drivers_of)
    rules = None
    if parse_feature_gates(context.config.feature_gates).is_enabled(TAINT_RULES):
        rules = context.informers.for_resource(resource_of_class(DeviceTaintRule))
    reconciler = Reconciler(context, requests, slices, claims, rules)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )

    def waiting_for(one: ResourceSlice) -> list[str]:
        return [request.metadata.name for request in requests.by_index(BY_DRIVER, one.spec.driver)]

    controller.watches(slices, waiting_for)
    # Synced before the first request is answered; their later changes trigger nothing.
    for source in (claims, rules):
        if source is not None:
            controller.require_synced(source)
    controller.watches(requests, lambda one: (one.metadata.name,))
    return controller


class Reconciler:
    """Answers and deletes requests by name."""

    def __init__(
        self, context: ControllerContext, requests: Informer, slices: Informer, claims: Informer, rules: Informer | None
    ) -> None:
        self._client, self._clock = context.client, context.clock
        self._requests = requests
        self._slices = slices
        self._claims = claims
        self._rules = rules
        registry = context.telemetry.registry
        self._processed = registry.counter(_PREFIX + "requests_processed_total", "driver_name")
        self._failed = registry.counter(_PREFIX + "request_processing_errors_total", "driver_name")
        self._seconds = registry.histogram(
            _PREFIX + "request_processing_duration_seconds", "driver_name", bounds=_SECONDS
        )

    async def reconcile(self, name: str) -> Result | None:
        """Answer one request, and delete it when it has expired."""
        request: ResourcePoolStatusRequest | None = self._requests.get("", name)
        if request is None or request.metadata.deletion_timestamp is not None:
            return None
        end = expiration_of(request)
        left = (
            PENDING_TTL.total_seconds() if end is None else (end + CLOCK_RESOLUTION - self._clock.now()).total_seconds()
        )
        if left <= 0:
            await self._delete(request)
            return None
        if request.status is None:
            await self._answer(request)
        return Result(requeue_after=left)

    async def _delete(self, request: ResourcePoolStatusRequest) -> None:
        this_one = Preconditions(uid=request.metadata.uid)
        with suppress(Conflict, NotFound):
            await self._client.delete(ResourcePoolStatusRequest, request.metadata.name, preconditions=this_one)

    async def _answer(self, request: ResourcePoolStatusRequest) -> None:
        began, driver = self._clock.monotonic(), request.spec.driver
        taken = pool_allocations(self._claims.by_index(BY_DRIVER, driver), driver)
        rules = () if self._rules is None else tuple(self._rules.list())
        pools = pools_of(request.spec, self._slices.by_index(BY_DRIVER, driver), taken, rules)
        if is_incomplete(pools):
            return
        try:
            await self._write(request, status_of(pools, request.spec.limit, self._clock.now()))
        except NotFound:
            return
        except Exception as error:
            self._failed.with_labels(driver).value += 1
            if isinstance(error, Invalid):  # the same answer would be refused again
                raise TerminalError(str(error)) from error
            raise
        finally:
            self._processed.with_labels(driver).value += 1
            self._seconds.with_labels(driver).observe(self._clock.monotonic() - began)

    async def _write(self, request: ResourcePoolStatusRequest, status: dict[str, object]) -> None:
        meta = request.metadata
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}
        await self._client.patch(
            ResourcePoolStatusRequest, meta.name, patch, type=MERGE_PATCH, subresource="status"
        )  # fmt: skip


def drivers_of(claim: ResourceClaim) -> tuple[str, ...]:
    """Return the drivers of a claim's devices."""
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results
    return tuple(dict.fromkeys(result.driver for result in results))


def expiration_of(request: ResourcePoolStatusRequest) -> datetime | None:
    """Return the time at which a request expires; None if it has no times."""
    made = request.metadata.creation_timestamp
    if request.status is None:
        return None if made is None else parse_time(made) + PENDING_TTL
    decided = (one for one in request.status.conditions if one.type in ("Complete", "Failed"))
    moment = next((one.last_transition_time for one in decided), made)
    return None if moment is None else parse_time(moment) + ANSWERED_TTL
