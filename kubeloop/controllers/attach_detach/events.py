# SPDX-License-Identifier: Apache-2.0
"""Events on pods about their volumes, and metrics of forced detachments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeloop.api.generated.core_v1 import PersistentVolume, Pod
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.events.recorder import EventRecorder

FAILED: Final = "FailedAttachVolume"
_WAITING: Final = "Waiting for detach"
_EXCLUSIVE: Final = (
    "Volume is already exclusively attached to one node, "
    "waiting on detach before it can be attached to another node"
)  # fmt: skip


class AttachEvents:
    """Records events of attaching and counts forced detachments."""

    def __init__(self, recorder: EventRecorder, registry: MetricRegistry) -> None:
        self._recorder = recorder
        self._forced = registry.counter(
            "attach_detach_controller_attachdetach_controller_forced_detaches",
            "reason",
        )

    def record_attached(self, volume: PersistentVolume, pods: Sequence[Pod]) -> None:
        """Record that the volume is attached."""
        for pod in pods:
            message = _about("AttachVolume.Attach succeeded", volume, "")
            self._recorder.event(pod, "Normal", "SuccessfulAttachVolume", message)

    def record_failure(self, volume: PersistentVolume, pods: Sequence[Pod], why: str) -> None:
        """Record that attaching failed."""
        for pod in pods:
            self._recorder.event(pod, "Warning", FAILED, _about("AttachVolume.Attach failed", volume, f": {why}"))

    def record_timeout(self, volume: PersistentVolume, pods: Sequence[Pod]) -> None:
        """Record that the driver has timed out."""
        source = volume.spec.csi
        if source is not None:
            who = f"external-attacher of {source.driver} CSI driver"
            self.record_failure(volume, pods, f"timed out waiting for {who} to attach volume {source.volume_handle}")

    def record_multi_attach(self, volume: PersistentVolume, pods: Sequence[Pod], users: Sequence[Pod]) -> None:
        """Record that other pods use the volume; pods in other namespaces are not named."""
        for pod in pods:
            message = _about(_WAITING, volume, describe_users(pod.metadata.namespace, users))
            self._recorder.event(pod, "Warning", FAILED, message)

    def count_forced_detach(self, reason: str) -> None:
        """Count a forced detachment."""
        self._forced.with_labels(reason).value += 1


def describe_users(namespace: str, users: Sequence[Pod]) -> str:
    """Describe the pods that block a volume, as far as the namespace may know them."""
    if not users:
        return _EXCLUSIVE
    names = [pod.metadata.name for pod in users if pod.metadata.namespace == namespace]
    others = len(users) - len(names)
    if not names:
        return f"Volume is already used by {others} pod(s) in different namespaces"
    text = f"Volume is already used by pod(s) {', '.join(names)}"
    return f"{text} and {others} pod(s) in different namespaces" if others else text


def _about(what: str, volume: PersistentVolume, more: str) -> str:
    return f'{what} for volume "{volume.metadata.name}" {more}'
