# SPDX-License-Identifier: Apache-2.0
"""Attaches one volume to the nodes whose pods need it, and detaches it from others as soon as that is safe."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress
from typing import Final

from kubeloop.api.errors import AlreadyExists, NotFound
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.meta_v1 import ObjectMeta, Preconditions
from kubeloop.api.generated.storage_v1 import VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.attach_detach.events import AttachEvents
from kubeloop.controllers.attach_detach.names import (
    attachment_name,
    is_attached,
    is_out_of_service,
    is_ready,
    is_shareable,
    reported_volumes,
)
from kubeloop.controllers.attach_detach.node_volume_state import NodeVolumeState, NodeVolumeStates
from kubeloop.controllers.attach_detach.state_of_world import DesiredVolume, StateOfWorld

# Seconds for which an unhealthy node may keep a volume that it reports as mounted; as upstream.
MAX_WAIT_FOR_UNMOUNT: Final = 360.0
# Seconds that a driver may take before an event is recorded on the pods; as upstream.
ATTACH_TIMEOUT: Final = 120.0
# Seconds between checks while a node still uses a volume to be detached; upstream checks ten times a second.
RECHECK_SECONDS: Final = 1.0

WakeNode = Callable[[str], None]


class VolumeAttacher:
    """Attaches and detaches volumes by unique name."""

    def __init__(
        self,
        client: Client,
        world: StateOfWorld,
        clock: Clock,
        telling: AttachEvents,
        *,
        forces: bool,
        wake_node: WakeNode,
    ) -> None:
        self._client = client
        self._world = world
        self._clock = clock
        self._telling = telling
        self._forces = forces
        self._wake_node = wake_node
        self.memory = NodeVolumeStates()

    async def reconcile(self, name: str) -> float | None:
        """Advance each node's attachment by one step; returns the seconds until the next sync, if any."""
        wanted = self._world.desired_nodes(name)
        attachments = self._world.attachments_of(name)
        there = self._cached_nodes(name)
        there |= await self._uncached_nodes(name, there)
        self.memory.keep_only(name, there | set(wanted))
        waits = [await self._detach(name, one) for one in attachments if self._should_detach(name, one, wanted)]
        waits += [await self._attach(name, node, desired, there) for node, desired in wanted.items()]
        if not attachments and not wanted:
            self._world.forget(name)
        return min((one for one in waits if one is not None), default=None)

    def _should_detach(self, volume: str, attachment: VolumeAttachment, wanted: Container[str]) -> bool:
        """Return True if the attachment is to be deleted.

        A requested deletion is completed even if a pod needs the volume again: a failed request may have been executed,
        and then the cache shows an attachment that no longer exists.
        """
        node = attachment.spec.node_name
        return node not in wanted or self.memory.is_deleted(volume, node, attachment.metadata.uid)

    # Attaching

    async def _uncached_nodes(self, volume: str, shown: set[str]) -> set[str]:
        """Return the nodes with a VolumeAttachment that exists but is not in the cache, as after a lost response."""
        found = set()
        for node, name in self.memory.unconfirmed_attachments(volume).items():
            if node in shown:
                continue
            with suppress(NotFound):
                await self._client.get(VolumeAttachment, name)
                found.add(node)
        return found

    async def _attach(self, unique: str, node: str, desired: DesiredVolume, there: set[str]) -> float | None:
        """Attach to one node. `there` are the nodes with an attachment; this node is added once requested."""
        stay = self.memory.get_or_create(unique, node)
        stay.detach_requested_at = None
        attachment = self._world.attachment(attachment_name(desired.volume, node))
        if attachment is None:
            return await self._create_attachment(unique, node, desired, there)
        if stay.deleted_uid == attachment.metadata.uid and attachment.metadata.deletion_timestamp is None:
            return None  # once the cache shows that it is gone, a new one is created
        if is_attached(attachment) and attachment.metadata.deletion_timestamp is None:
            self._handle_attached(unique, node, stay, desired)
            return None
        return self._handle_pending(desired, attachment, stay)

    async def _create_attachment(self, unique: str, node: str, desired: DesiredVolume, there: set[str]) -> float | None:
        stay = self.memory.get_or_create(unique, node)
        others = there - {node}
        if others and not is_shareable(desired.volume):
            self._record_multi_attach(unique, stay, desired, others)
            return (
                None if others <= self._cached_nodes(unique) else RECHECK_SECONDS
            )  # one that the cache shows enqueues the volume
        if node not in there:
            name = attachment_name(desired.volume, node)
            stay.attach_requested_at, stay.attachment = (
                self._clock.monotonic(),
                name,
            )  # before the request: a response may be lost
            there.add(node)
            await self._request_attachment(desired, node, name)
        return ATTACH_TIMEOUT

    def _cached_nodes(self, volume: str) -> set[str]:
        return {one.spec.node_name for one in self._world.attachments_of(volume)}

    async def _request_attachment(self, desired: DesiredVolume, node: str, name: str) -> None:
        volume = desired.volume
        driver = volume.spec.csi.driver if volume.spec.csi is not None else ""
        if desired.is_inline:
            source = VolumeAttachmentSource(inline_volume_spec=volume.spec)
        else:
            source = VolumeAttachmentSource(persistent_volume_name=volume.metadata.name)
        spec = VolumeAttachmentSpec(attacher=driver, node_name=node, source=source)
        with suppress(AlreadyExists):
            await self._client.create(VolumeAttachment(metadata=ObjectMeta(name=name), spec=spec))

    def _record_multi_attach(
        self, unique: str, stay: NodeVolumeState, desired: DesiredVolume, others: set[str]
    ) -> None:
        if not stay.multi_attach_recorded:
            wanted = self._world.desired_nodes(unique)
            users = [pod for node in sorted(others) if node in wanted for pod in wanted[node].pods]
            self._telling.record_multi_attach(desired.volume, desired.pods, users)
            stay.multi_attach_recorded = True

    def _handle_attached(self, unique: str, name: str, stay: NodeVolumeState, desired: DesiredVolume) -> None:
        node = self._world.node(name)
        stay.reported_as_detached = stay.multi_attach_recorded = False
        stay.attach_requested_at, stay.attachment, stay.recorded_failure = None, "", ""
        if node is not None and unique not in reported_volumes(node):
            if not stay.success_recorded:
                self._telling.record_attached(desired.volume, desired.pods)
            self._wake_node(name)
        stay.success_recorded = True

    def _handle_pending(self, desired: DesiredVolume, attachment: VolumeAttachment, stay: NodeVolumeState) -> float:
        stay.success_recorded = False
        now = self._clock.monotonic()
        if stay.attach_requested_at is None:
            stay.attach_requested_at = now
        failure = attach_failure(attachment)
        if failure and failure != stay.recorded_failure:
            stay.recorded_failure = failure
            self._telling.record_failure(desired.volume, desired.pods, failure.partition("\n")[0])
        elif not failure and now - stay.attach_requested_at >= ATTACH_TIMEOUT:
            stay.attach_requested_at = now
            self._telling.record_timeout(desired.volume, desired.pods)
        return max(stay.attach_requested_at + ATTACH_TIMEOUT - now, RECHECK_SECONDS)

    # Detaching

    async def _detach(self, unique: str, attachment: VolumeAttachment) -> float | None:
        """Detach in steps: no longer needed, not mounted, removed from the node's status, deleted."""
        if attachment.metadata.deletion_timestamp is not None:
            return None
        name = attachment.spec.node_name
        stay, node = self.memory.get_or_create(unique, name), self._world.node(name)
        if stay.deleted_uid == attachment.metadata.uid:
            await self._delete(stay, attachment)
            return None
        now = self._clock.monotonic()
        if stay.detach_requested_at is None:
            stay.detach_requested_at = now
        left = stay.detach_requested_at + MAX_WAIT_FOR_UNMOUNT - now
        is_late = left <= 0 and self._forces
        if may_be_mounted(node, unique) and not (is_late and not is_ready(node)) and not is_out_of_service(node):
            return left if left > 0 else None  # a change of the node enqueues the volume
        stay.reported_as_detached = True
        if node is not None and unique in reported_volumes(node):
            self._wake_node(name)  # and its new status enqueues the volume
            return RECHECK_SECONDS
        if self.memory.is_being_written(name):
            return RECHECK_SECONDS  # a report that still lists the volume may be in flight
        is_forced = is_late or is_out_of_service(node)
        if not is_forced and await self._may_be_mounted(name, unique, stay):
            return RECHECK_SECONDS
        if is_forced:
            self._telling.count_forced_detach("timeout" if is_late else "out-of-service")
        await self._delete(stay, attachment)
        return None

    async def _delete(self, stay: NodeVolumeState, attachment: VolumeAttachment) -> None:
        stay.deleted_uid = attachment.metadata.uid  # before the request: the response may be lost
        this_one = Preconditions(uid=attachment.metadata.uid)
        with suppress(NotFound):
            await self._client.delete(VolumeAttachment, attachment.metadata.name, preconditions=this_one)

    async def _may_be_mounted(self, name: str, unique: str, stay: NodeVolumeState) -> bool:
        """Return True if the server, not the cache, says that the node uses the volume or may still mount it."""
        try:
            fresh = await self._client.get(Node, name)
        except NotFound:
            return False
        if unique in fresh.status.volumes_in_use:
            stay.reported_as_detached = False
            self._wake_node(name)
            return True
        return unique in reported_volumes(fresh)


def may_be_mounted(node: Node | None, unique: str) -> bool:
    """Return True if the volume may be mounted; the mounts of a missing node are unknown."""
    return node is None or unique in node.status.volumes_in_use


def attach_failure(attachment: VolumeAttachment) -> str:
    """Return the reason of a failed attachment with its time, so that a later repetition differs."""
    if attachment.metadata.deletion_timestamp is not None:
        return "volume attachment is being deleted"
    error = attachment.status.attach_error
    return "" if error is None else f"{error.message}\n{error.time}"
