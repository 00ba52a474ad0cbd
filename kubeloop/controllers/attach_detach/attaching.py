"""One volume: attached to the nodes whose pods need it, and detached from all others as soon as that is safe."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kubeloop.api.errors import AlreadyExists, NotFound
from kubeloop.api.generated.core_v1 import Node, PersistentVolume, Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta, Preconditions
from kubeloop.api.generated.storage_v1 import VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.attach_detach.memory import Memory, Stay
from kubeloop.controllers.attach_detach.names import (
    attachment_name,
    is_attached,
    is_out_of_service,
    is_ready,
    is_shareable,
    reported_on,
)
from kubeloop.controllers.attach_detach.telling import Telling
from kubeloop.controllers.attach_detach.world import World

# How long a node that is not well may keep a volume that it says is mounted, in seconds; upstream's.
LONGEST_UNMOUNT: Final = 360.0
# How long a driver may take before pods are told; upstream's.
LONGEST_ATTACH: Final = 120.0
# When a node still uses what it was told to let go of; upstream looks ten times a second.
LOOK_AGAIN: Final = 1.0

WakeNode = Callable[[str], None]


class Attaching:
    def __init__(
        self, client: Client, world: World, clock: Clock, telling: Telling, *, forces: bool, wake_node: WakeNode
    ) -> None:
        self._client = client
        self._world = world
        self._clock = clock
        self._telling = telling
        self._forces = forces
        self._wake_node = wake_node
        self.memory = Memory()

    async def reconcile(self, name: str) -> float | None:
        """One step for each node; in how many seconds to look again, if nothing happens before."""
        volume = self._world.volume(name)
        wanted = self._world.wanted(volume)
        attachments = list(self._world.attachments_of(name))
        there = {one.spec.node_name for one in attachments}
        if volume is not None:
            there |= await self._unseen(volume, there | set(wanted))
        self.memory.keep_only(name, there | set(wanted))
        waits = [await self._detach(name, one) for one in attachments if one.spec.node_name not in wanted]
        if volume is not None:
            waits += [await self._attach(volume, node, pods, there) for node, pods in wanted.items()]
        if not attachments and not wanted:
            self._world.forget(name)
        return min((one for one in waits if one is not None), default=None)

    # Attaching

    async def _unseen(self, volume: PersistentVolume, known: set[str]) -> set[str]:
        """Other nodes that it was asked to be attached to a moment ago, and the cache does not show it yet."""
        found = set()
        for node in self.memory.asked(volume.metadata.name) - known:
            if volume.spec.csi is None:
                continue
            with suppress(NotFound):
                await self._client.get(VolumeAttachment, attachment_name(volume.spec.csi, node))
                found.add(node)
        return found

    async def _attach(self, volume: PersistentVolume, node: str, pods: list[Pod], there: set[str]) -> float | None:
        stay = self.memory.stay(volume.metadata.name, node)
        stay.unneeded_since = None
        if volume.spec.csi is None:
            return None
        name = attachment_name(volume.spec.csi, node)
        attachment = self._world.attachment(name)
        if attachment is None:
            others = there - {node}
            if others and not is_shareable(volume):
                self._tell_blocked(volume, stay, pods, others)
                return None
            stay.asked_at = self._clock.monotonic()  # before it is: the answer may not come
            await self._ask(volume, node, name)
            return LONGEST_ATTACH
        if is_attached(attachment) and attachment.metadata.deletion_timestamp is None:
            self._arrived(volume, node, stay, pods)
            return None
        return self._still_waiting(volume, attachment, stay, pods)

    async def _ask(self, volume: PersistentVolume, node: str, name: str) -> None:
        driver = volume.spec.csi.driver if volume.spec.csi is not None else ""
        source = VolumeAttachmentSource(persistent_volume_name=volume.metadata.name)
        spec = VolumeAttachmentSpec(attacher=driver, node_name=node, source=source)
        with suppress(AlreadyExists):
            await self._client.create(VolumeAttachment(metadata=ObjectMeta(name=name), spec=spec))

    def _tell_blocked(self, volume: PersistentVolume, stay: Stay, pods: list[Pod], others: set[str]) -> None:
        """The attachment that is in the way wakes the volume when it goes."""
        if not stay.blocked_told:
            wanted = self._world.wanted(volume)
            self._telling.blocked(volume, pods, [pod for node in sorted(others) for pod in wanted.get(node, ())])
            stay.blocked_told = True

    def _arrived(self, volume: PersistentVolume, name: str, stay: Stay, pods: list[Pod]) -> None:
        node = self._world.node(name)
        stay.leaving = stay.blocked_told = False
        stay.asked_at, stay.failure_told = None, ""
        unique = self._world.unique_name(volume.metadata.name)
        if node is not None and unique not in reported_on(node):
            if not stay.announced:
                self._telling.attached(volume, pods)
            self._wake_node(name)
        stay.announced = True

    def _still_waiting(
        self, volume: PersistentVolume, attachment: VolumeAttachment, stay: Stay, pods: list[Pod]
    ) -> float:
        stay.announced = False
        now = self._clock.monotonic()
        if stay.asked_at is None:
            stay.asked_at = now
        failure = failure_of(attachment)
        if failure and failure != stay.failure_told:
            stay.failure_told = failure
            self._telling.failed(volume, pods, failure.partition("\n")[0])
        elif not failure and now - stay.asked_at >= LONGEST_ATTACH:
            stay.asked_at = now
            self._telling.late(volume, pods)
        return max(stay.asked_at + LONGEST_ATTACH - now, LOOK_AGAIN)

    # Detaching

    async def _detach(self, volume: str, attachment: VolumeAttachment) -> float | None:
        """Step by step: nobody needs it, nobody has it mounted, the node is no longer told of it, it is deleted."""
        unique = self._world.unique_name(volume)
        if unique is None or attachment.metadata.deletion_timestamp is not None:
            return None
        name = attachment.spec.node_name
        stay, node = self.memory.stay(volume, name), self._world.node(name)
        now = self._clock.monotonic()
        if stay.unneeded_since is None:
            stay.unneeded_since = now
        left = stay.unneeded_since + LONGEST_UNMOUNT - now
        is_late = left <= 0 and self._forces
        if is_mounted(node, unique) and not (is_late and not is_ready(node)) and not is_out_of_service(node):
            return left if left > 0 else None  # a change of the node wakes the volume
        stay.leaving = True
        if node is not None and unique in reported_on(node):
            self._wake_node(name)  # and its new status wakes the volume
            return LOOK_AGAIN
        is_forced = is_late or is_out_of_service(node)
        if not is_forced and await self._is_in_use(name, unique):
            stay.leaving = False
            self._wake_node(name)
            return LOOK_AGAIN
        this_one = Preconditions(uid=attachment.metadata.uid)
        with suppress(NotFound):
            await self._client.delete(VolumeAttachment, attachment.metadata.name, preconditions=this_one)
        if is_forced:
            self._telling.forced("timeout" if is_late else "out-of-service")
        return None

    async def _is_in_use(self, node: str, unique: str) -> bool:
        """Asked of the server itself: a node may have begun to use what it was told of a moment ago."""
        try:
            fresh = await self._client.get(Node, node)
        except NotFound:
            return False
        return unique in fresh.status.volumes_in_use


def is_mounted(node: Node | None, unique: str) -> bool:
    """Of a node that is gone nobody knows what it still has mounted."""
    return node is None or unique in node.status.volumes_in_use


def failure_of(attachment: VolumeAttachment) -> str:
    """Why the volume is not attached, with the moment, so that the same failure later is another one."""
    if attachment.metadata.deletion_timestamp is not None:
        return "volume attachment is being deleted"
    error = attachment.status.attach_error
    return "" if error is None else f"{error.message}\n{error.time}"
