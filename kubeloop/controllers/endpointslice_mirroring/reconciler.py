# SPDX-License-Identifier: Apache-2.0
"""Syncs one Endpoints object with the slices that mirror it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from kubeloop.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from kubeloop.api.generated.core_v1 import Endpoints, Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.endpointslice_mirroring.metrics import MirroringMetrics
from kubeloop.controllers.endpointslice_mirroring.mirror import (
    MirrorDraft,
    MirroredEndpoints,
    MirrorPlan,
    mirror_endpoints,
    new_slice,
    plan_mirror,
    should_mirror,
    slice_patch,
)
from kubeloop.controllers.shared.endpoints.slice_tracker import EndpointSliceTracker
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.metrics import MetricValue
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate

# Errors caused by an outdated cache; the runtime handles them.
_STALE = (Conflict, NotFound, AlreadyExists)
_SLICES = resource_of_class(EndpointSlice)


class MirroringError(Exception):
    """Raised if slices could not be synced; the cause is the server's error."""


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Mirrors Endpoints objects by key."""

    client: Client
    clock: Clock
    services: Informer
    endpoints: Informer
    slice_tracker: EndpointSliceTracker
    writer: PatchOrUpdate
    recorder: EventRecorder
    metrics: MirroringMetrics
    max_endpoints_per_subset: int  # limit of mirrored addresses per subset

    async def reconcile(self, key: ObjectKey) -> None:
        """Mirror one Endpoints object, or delete its slices if it is not to be mirrored."""
        began = self.clock.monotonic()
        try:
            await self.slice_tracker.wait_ready(key)
            endpoints: Endpoints | None = self.endpoints.get(*key)
            service: Service | None = self.services.get(*key)
            if endpoints is None or not should_mirror(endpoints) or service is None or service.spec.selector:
                await self._remove(key)
            else:
                await self._mirror(endpoints)
        finally:
            self.metrics.record_duration(self.clock.monotonic() - began)

    async def _remove(self, key: ObjectKey) -> None:
        """Delete all slices, since nothing is to be mirrored."""
        slices = self.slice_tracker.slices_of(key)
        self.metrics.forget(key)
        failures: list[Exception] = []
        for one in slices:
            try:
                await self._delete(key, one)
            except Exception as error:
                failures.append(error)
        if failures:
            said = f"error(s) deleting {len(failures)}/{len(slices)} EndpointSlices for {key} Endpoints"
            raise MirroringError(f"{said}, including: {failures[0]}") from failures[0]

    async def _mirror(self, endpoints: Endpoints) -> None:
        key = key_of(endpoints)
        found = mirror_endpoints(endpoints, self.max_endpoints_per_subset)
        self._tell(endpoints, found)
        plan = plan_mirror(endpoints, self.slice_tracker.slices_of(key), found.groups)
        self.metrics.record_plan(key, found, plan)
        await self._carry_out(endpoints, plan)

    def _tell(self, endpoints: Endpoints, found: MirroredEndpoints) -> None:
        if found.invalid:
            message = f"Skipped {found.invalid} invalid IP addresses when mirroring to EndpointSlices"
            self.recorder.event(endpoints, "Warning", "InvalidIPAddress", message)
        if found.skipped > found.invalid:
            message = (
                f"A max of {self.max_endpoints_per_subset} addresses can be mirrored to EndpointSlices per Endpoints"
                f" subset. {found.skipped} addresses were skipped"
            )
            self.recorder.event(endpoints, "Warning", "TooManyAddressesToMirror", message)

    async def _carry_out(self, endpoints: Endpoints, plan: MirrorPlan) -> None:
        key = key_of(endpoints)
        if endpoints.metadata.deletion_timestamp is None:
            for draft in plan.create:
                if not await self._create(key, new_slice(endpoints, draft)):
                    return
        for draft in plan.update:
            await self._change(endpoints, draft)
        for one in plan.delete:
            try:
                await self._delete(key, one)
            except Exception as error:
                raise _failed(f"delete {one.metadata.name}", key, error) from error

    async def _create(self, key: ObjectKey, one: EndpointSlice) -> bool:
        """Create a slice; returns False if the namespace is being deleted."""
        try:
            made = await self.client.create(one)
        except Exception as error:
            if isinstance(error, ApiError) and is_terminating(error):
                return False
            raise _failed("create", key, error) from error
        self.slice_tracker.record_update(key, made)
        self._changes["create"].value += 1
        return True

    async def _change(self, endpoints: Endpoints, draft: MirrorDraft) -> None:
        base = draft.base
        assert base is not None  # drafts without a base are created
        key = key_of(endpoints)
        try:
            answer = await self.writer.patch_unchanged(_SLICES, base, slice_patch(base, endpoints, draft))
        except Exception as error:
            raise _failed(f"update {base.metadata.name}", key, error) from error
        self.slice_tracker.record_update(key, answer)
        self._changes["update"].value += 1

    async def _delete(self, key: ObjectKey, one: EndpointSlice) -> None:
        this_one = Preconditions(uid=one.metadata.uid)
        with suppress(NotFound):
            await self.client.delete(EndpointSlice, one.metadata.name, key.namespace, preconditions=this_one)
        self.slice_tracker.expect_deletion(key, one)
        self._changes["delete"].value += 1

    @property
    def _changes(self) -> Mapping[str, MetricValue]:
        return self.metrics.changes


def _failed(what: str, key: ObjectKey, error: Exception) -> Exception:
    if isinstance(error, _STALE):
        return error
    return MirroringError(f"failed to {what} EndpointSlice for Endpoints {key}: {error}")
