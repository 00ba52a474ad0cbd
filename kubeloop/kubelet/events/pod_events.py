# SPDX-License-Identifier: Apache-2.0
"""Emits events about pods with the kubelet's reasons and messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal, Protocol

from kubeloop.api.generated.core_v1 import Container, Node, ObjectReference, Pod
from kubeloop.kubelet.containers import image_pulls
from kubeloop.kubelet.containers.probes import DueProbe
from kubeloop.kubelet.runtime import ProbeResult
from kubeloop.kubelet.sync.containers import format_pod

# Event reasons for image problems before a pull.
_IMAGE_EVENT_REASONS = {
    "ErrImageNeverPull": "ErrImageNeverPull",
    "InvalidImageName": "InspectFailed",
    "ImageInspectError": "InspectFailed",
}
# Level of emitted events; Normal events of thousands of simulated pods are rarely useful.
EventLevel = Literal["none", "warnings", "all"]


class PodEventSink(Protocol):
    """Part of `kubeloop.runtime.events.recorder.EventRecorder` that is needed here."""

    def event(
        self,
        obj: object,
        type: str,
        reason: str,
        message: str,
        *,
        host: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Emit an event."""


class PodEvents:
    """Emits events about pods, with the pod's node as source host."""

    def __init__(self, recorder: PodEventSink, loudness: EventLevel) -> None:
        self._recorder = recorder
        self._loudness = loudness
        self._images: dict[str, set[str]] = defaultdict(set)  # images present, by node

    @property
    def is_verbose(self) -> bool:
        """True if Normal events are emitted."""
        return self._loudness == "all"

    def record_pulling(self, pod: Pod, container: Container) -> None:
        """Emit Pulling if the image is not on the node."""
        if image_pulls.needs_pull(container, self._images[pod.spec.node_name]):
            self._normal(pod, "Pulling", f'Pulling image "{container.image}"', container)

    def record_started(self, pod: Pod, container: Container, seconds: float) -> None:
        """Emit Pulled, Created and Started; `seconds` is the duration of the pull."""
        present = self._images[pod.spec.node_name]
        message = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
        if image_pulls.needs_pull(container, present):
            message = image_pulls.pulled_message(container.image, seconds)
        present.add(container.image)
        self._normal(pod, "Pulled", message, container)
        self.record_container_created(pod, container)
        self.record_container_started(pod, container)

    def record_image_pulling(self, pod: Pod, container: Container) -> None:
        """Emit Pulling for a pull that begins."""
        self._normal(pod, "Pulling", f'Pulling image "{container.image}"', container)

    def record_image_pulled(self, pod: Pod, container: Container, size: int, seconds: float) -> None:
        """Emit Pulled for an image that was pulled."""
        self._normal(pod, "Pulled", image_pulls.pulled_message(container.image, seconds, size), container)

    def record_image_present(self, pod: Pod, container: Container, *, is_verified: bool) -> None:
        """Emit Pulled for an image that was already present, and that the pod may use if that was verified."""
        access = " and can be accessed by the pod" if is_verified else ""
        self._normal(
            pod, "Pulled", f'Container image "{container.image}" already present on machine{access}', container
        )

    def record_container_created(self, pod: Pod, container: Container) -> None:
        """Emit Created."""
        self._normal(pod, "Created", "Container created", container)

    def record_container_started(self, pod: Pod, container: Container) -> None:
        """Emit Started."""
        self._normal(pod, "Started", "Container started", container)

    def record_killing(self, pod: Pod, container: Container, message: str) -> None:
        """Emit Killing."""
        self._normal(pod, "Killing", message, container)

    def record_sandbox_changed(self, pod: Pod) -> None:
        """Emit SandboxChanged."""
        self._normal(pod, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")

    def record_volume_setup_failed(
        self, pod: Pod, volume: str, why: str, step: str = "MountVolume.SetUp failed"
    ) -> None:
        """Emit the failure of a step for a volume whose content is missing: FailedMount, or FailedMapVolume."""
        reason = "FailedMapVolume" if step.startswith("MapVolume") else "FailedMount"
        self._warning(pod, reason, f'{step} for volume "{volume}" : {why}')

    def record_certificate_problem(self, pod: Pod, reason: str, message: str) -> None:
        """Emit a problem of a pod certificate."""
        self._warning(pod, reason, message)

    def record_mount_timeout(self, pod: Pod, unmounted: list[str]) -> None:
        """Emit FailedMount for volumes that could not be mounted in time."""
        said = f"unmounted volumes=[{' '.join(unmounted)}], unattached volumes=[], failed to process volumes=[]"
        self._warning(pod, "FailedMount", f"Unable to attach or mount volumes: {said}: context deadline exceeded")

    def record_volumes_not_mounted(
        self, pod: Pod, unmounted: list[str], unattached: list[str], complaints: Mapping[str, str]
    ) -> None:
        """Emit FailedMount for volumes by name, with the problems of those with claims."""
        failed, why = " ".join(sorted(complaints)), "; ".join(complaints.values())
        said = f"unmounted volumes=[{' '.join(unmounted)}], unattached volumes=[{' '.join(unattached)}]"
        message = f"Unable to attach or mount volumes: {said}, failed to process volumes=[{failed}]: {why}"
        self._warning(pod, "FailedMount", message)

    def record_deadline_exceeded(self, pod: Pod, reason: str, message: str) -> None:
        """Emit DeadlineExceeded."""
        self._normal(pod, reason, message)

    def record_back_off(self, pod: Pod, container: Container) -> None:
        """Emit BackOff for a crashing container."""
        message = f"Back-off restarting failed container {container.name} in pod {format_pod(pod)}"
        self._warning(pod, "BackOff", message, container)

    def record_pull_back_off(self, pod: Pod, container: Container) -> None:
        """Emit BackOff and Failed for an image pull."""
        self._normal(pod, "BackOff", f'Back-off pulling image "{container.image}"', container)
        self._warning(pod, "Failed", f"Error: {image_pulls.IMAGE_PULL_BACK_OFF}", container)

    def record_start_failed(
        self, pod: Pod, container: Container, reason: str, message: str, *, has_begun: bool = False
    ) -> None:
        """Emit Failed for a container that could not be started, and the event of its pull unless that has begun."""
        if reason in image_pulls.PULL_FAILURES:
            if not has_begun:
                self.record_image_pulling(pod, container)
            self._warning(pod, "Failed", f'Failed to pull image "{container.image}": {message}', container)
        elif reason in _IMAGE_EVENT_REASONS:
            self._warning(pod, _IMAGE_EVENT_REASONS[reason], message, container)
        self._warning(pod, "Failed", f"Error: {reason if reason in image_pulls.IMAGE_FAILURES else message}", container)

    def record_sandbox_failed(self, pod: Pod, reason: str, message: str) -> None:
        """Emit FailedCreatePodSandBox, or another reason for which there is no sandbox."""
        about = f"Failed to create pod sandbox: {message}" if reason == "FailedCreatePodSandBox" else message
        self._warning(pod, reason, about)

    def record_probe(self, pod: Pod, due: DueProbe, answer: ProbeResult) -> None:
        """Emit Unhealthy for a probe that failed or had an error, and ProbeWarning for a success with a warning."""
        kind = due.kind.capitalize()
        if answer.is_error:
            message = f"{kind} probe errored and resulted in unknown state: {answer.output}"
            self._warning(pod, "Unhealthy", message, due.container)
        elif not answer.ok:
            self._warning(pod, "Unhealthy", f"{kind} probe failed: {answer.output}", due.container)
        elif answer.is_warning:
            self._warning(pod, "ProbeWarning", f"{kind} probe warning: {answer.output}", due.container)

    def record_post_start_failed(self, pod: Pod, container: Container) -> None:
        """Emit FailedPostStartHook."""
        self._warning(pod, "FailedPostStartHook", "PostStartHook failed", container)

    def record_pre_stop_failed(self, pod: Pod, container: Container) -> None:
        """Emit FailedPreStopHook."""
        self._warning(pod, "FailedPreStopHook", "PreStopHook failed", container)

    def record_resize_started(self, pod: Pod, message: str) -> None:
        """Emit ResizeStarted."""
        self._normal(pod, "ResizeStarted", message)

    def record_resize_error(self, pod: Pod, message: str) -> None:
        """Emit ResizeError."""
        self._warning(pod, "ResizeError", message)

    def record_resize_completed(self, pod: Pod, message: str) -> None:
        """Emit ResizeCompleted."""
        self._normal(pod, "ResizeCompleted", message)

    def record_resize_deferred(self, pod: Pod, message: str) -> None:
        """Emit ResizeDeferred."""
        self._warning(pod, "ResizeDeferred", message)

    def record_resize_infeasible(self, pod: Pod, message: str) -> None:
        """Emit ResizeInfeasible."""
        self._warning(pod, "ResizeInfeasible", message)

    def record_rejected(
        self, pod: Pod, reason: str, message: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Emit the event of a pod that the node rejects or evicts."""
        if self._loudness != "none":
            about, node = _reference(pod, None), pod.spec.node_name
            self._recorder.event(about, "Warning", reason, message, host=node, annotations=annotations)

    def record_reclaiming(self, node: Node, resource: str) -> None:
        """Emit EvictionThresholdMet for a node."""
        if self._loudness != "none":
            name = node.metadata.name
            about = ObjectReference(kind="Node", name=name, uid=name)
            message = f"Attempting to reclaim {resource}"
            self._recorder.event(about, "Warning", "EvictionThresholdMet", message, host=name)

    def record_node_event(self, name: str, type: str, reason: str, message: str) -> None:
        """Emit an event about a node."""
        if self._loudness == "all" or (type == "Warning" and self._loudness != "none"):
            about = ObjectReference(kind="Node", name=name, uid=name)
            self._recorder.event(about, type, reason, message, host=name)

    def record_node_warning(self, name: str, reason: str, message: str) -> None:
        """Emit a warning about a node."""
        self.record_node_event(name, "Warning", reason, message)

    def _normal(self, pod: Pod, reason: str, message: str, container: Container | None = None) -> None:
        if self._loudness == "all":
            about, node = _reference(pod, container), pod.spec.node_name
            self._recorder.event(about, "Normal", reason, message, host=node)

    def _warning(self, pod: Pod, reason: str, message: str, container: Container | None = None) -> None:
        if self._loudness != "none":
            about, node = _reference(pod, container), pod.spec.node_name
            self._recorder.event(about, "Warning", reason, message, host=node)


def _reference(pod: Pod, container: Container | None) -> ObjectReference:
    meta = pod.metadata
    path = ""
    if container is not None and container.name:  # images of volumes belong to no container
        group = "initContainers" if any(one is container for one in pod.spec.init_containers) else "containers"
        path = f"spec.{group}{{{container.name}}}"
    return ObjectReference(
        kind="Pod",
        api_version="v1",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        field_path=path,
    )
