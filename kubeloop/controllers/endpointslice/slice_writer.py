# SPDX-License-Identifier: Apache-2.0
"""Executes a plan for slices: creations first, then changes, then deletions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api import codec
from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta, Preconditions
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.endpointslice.slice_plan import SliceDraft, SlicePlan
from kubeloop.controllers.shared.endpoints.slice_tracker import EndpointSliceTracker
from kubeloop.controllers.shared.endpoints.slices import name_prefix
from kubeloop.controllers.shared.endpoints.trigger_times import ANNOTATION
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.metrics import MetricValue
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.objects.owner_references import controller_reference
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate, map_patch

_SERVICE = resource_of_class(Service)
_SLICES = resource_of_class(EndpointSlice)


class SliceWriteError(Exception):
    """Raised if a slice was not written; its cause is the server's error."""


class SliceWriter:
    """Writes the slices of Services, and records the writes."""

    def __init__(self, client: Client, memory: EndpointSliceTracker, changes: Mapping[str, MetricValue]) -> None:
        self._client = client
        self._memory = memory
        self._changes = changes
        self._writer = PatchOrUpdate(client)

    async def execute(self, service: Service, plan: SlicePlan, trigger_time: str) -> int:
        """Execute the plan; returns the number of slices written. A Service being deleted gets no new slices."""
        key = key_of(service)
        written = 0
        if service.metadata.deletion_timestamp is None:
            for draft in plan.create:
                if not await self._create(key, new_slice(service, draft, trigger_time)):
                    return written
                written += 1
        for draft in plan.update:
            if draft.base is not None and draft.is_changed:
                await self._change(key, draft.base, slice_patch(draft.base, draft, trigger_time))
                written += 1
        for one in plan.delete:
            await self.delete(key, one)
            written += 1
        return written

    async def _create(self, key: ObjectKey, one: EndpointSlice) -> bool:
        """Create a slice; returns False if the namespace is being deleted."""
        try:
            made = await self._client.create(one)
        except Exception as error:
            if isinstance(error, ApiError) and is_terminating(error):
                return False
            raise SliceWriteError(f"failed to create EndpointSlice for Service {key}: {error}") from error
        self._memory.record_update(key, made)
        self._changes["create"].value += 1
        return True

    async def _change(self, key: ObjectKey, one: EndpointSlice, patch: dict[str, Any]) -> None:
        try:
            answer = await self._writer.patch_unchanged(_SLICES, one, patch)
        except Exception as error:
            said = f"failed to update {one.metadata.name} EndpointSlice for Service {key}: {error}"
            raise SliceWriteError(said) from error
        self._memory.record_update(key, answer)
        self._changes["update"].value += 1

    async def delete(self, key: ObjectKey, one: EndpointSlice) -> None:
        """Delete a slice if it still exists with this UID."""
        this_one = Preconditions(uid=one.metadata.uid)
        try:
            await self._client.delete(EndpointSlice, one.metadata.name, key.namespace, preconditions=this_one)
        except NotFound:
            pass
        except Exception as error:
            said = f"failed to delete {one.metadata.name} EndpointSlice for Service {key}: {error}"
            raise SliceWriteError(said) from error
        self._memory.expect_deletion(key, one)
        self._changes["delete"].value += 1


def new_slice(service: Service, draft: SliceDraft, trigger_time: str) -> EndpointSlice:
    """Build a new slice."""
    meta = service.metadata
    return EndpointSlice(
        metadata=ObjectMeta(
            generate_name=name_prefix(meta.name),
            namespace=meta.namespace,
            labels=dict(draft.labels),
            annotations={ANNOTATION: trigger_time} if trigger_time else {},
            owner_references=(controller_reference(service, _SERVICE),),
        ),
        address_type=draft.address_type,
        endpoints=tuple(draft.endpoints),
        ports=draft.ports,
    )


def slice_patch(base: EndpointSlice, draft: SliceDraft, trigger_time: str) -> dict[str, Any]:
    """Build the merge patch from a slice to its desired state."""
    metadata: dict[str, Any] = {}
    if base.metadata.labels != draft.labels:
        metadata["labels"] = map_patch(base.metadata.labels, draft.labels)
    if base.metadata.annotations.get(ANNOTATION, "") != trigger_time:
        metadata["annotations"] = {ANNOTATION: trigger_time or None}
    patch: dict[str, Any] = {"metadata": metadata}
    if list(base.endpoints or ()) != draft.endpoints:
        patch["endpoints"] = codec.to_plain(draft.endpoints)
    if (base.ports or ()) != draft.ports:
        patch["ports"] = codec.to_plain(draft.ports)
    return patch
