"""What the agent says about pods in events, in the kubelet's words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal, Protocol

from kubeloop.api.generated.core_v1 import Container, Node, ObjectReference, Pod
from kubeloop.kubelet.containers import image_pulls
from kubeloop.kubelet.containers.probes import DueProbe
from kubeloop.kubelet.runtime import ProbeAnswer
from kubeloop.kubelet.sync.containers import pod_text

# What the events are called that tell what is wrong with an image before anything was pulled.
_TOLD_OF_IMAGES = {
    "ErrImageNeverPull": "ErrImageNeverPull",
    "InvalidImageName": "InspectFailed",
    "ImageInspectError": "InspectFailed",
}
# Which events are written: those of thousands of simulated pods that start as they should are seldom wanted.
Loudness = Literal["none", "warnings", "all"]


class Recorder(Protocol):
    """What telling takes of `kubeloop.runtime.events.recorder.EventRecorder`."""

    def event(
        self,
        obj: object,
        type: str,
        reason: str,
        message: str,
        *,
        host: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None: ...


class Telling:
    """Events about pods, each in the name of the pod's node."""

    def __init__(self, recorder: Recorder, loudness: Loudness) -> None:
        self._recorder = recorder
        self._loudness = loudness
        self._images: dict[str, set[str]] = defaultdict(set)  # by node, those that were told to be there

    @property
    def is_loud(self) -> bool:
        """Whether what goes as it should is told."""
        return self._loudness == "all"

    def pulling(self, pod: Pod, container: Container) -> None:
        """A container's image is had: from the node, or from elsewhere."""
        if image_pulls.is_pulled(container, self._images[pod.spec.node_name]):
            self._normal(pod, "Pulling", f'Pulling image "{container.image}"', container)

    def started(self, pod: Pod, container: Container, seconds: float) -> None:
        """A container has begun, so long after that."""
        present = self._images[pod.spec.node_name]
        message = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
        if image_pulls.is_pulled(container, present):
            message = image_pulls.pulled_text(container.image, seconds)
        present.add(container.image)
        self._normal(pod, "Pulled", message, container)
        self._normal(pod, "Created", "Container created", container)
        self._normal(pod, "Started", "Container started", container)

    def killing(self, pod: Pod, container: Container, message: str) -> None:
        self._normal(pod, "Killing", message, container)

    def sandbox_changed(self, pod: Pod) -> None:
        self._normal(pod, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")

    def not_filled(self, pod: Pod, volume: str, why: str) -> None:
        self._warning(pod, "FailedMount", f'MountVolume.SetUp failed for volume "{volume}" : {why}')

    def not_claimed(self, pod: Pod, unmounted: list[str], unattached: list[str], complaints: Mapping[str, str]) -> None:
        """Volumes by the pod's names, and what is wrong with those that are claimed."""
        failed, why = " ".join(sorted(complaints)), "; ".join(complaints.values())
        said = f"unmounted volumes=[{' '.join(unmounted)}], unattached volumes=[{' '.join(unattached)}]"
        message = f"Unable to attach or mount volumes: {said}, failed to process volumes=[{failed}]: {why}"
        self._warning(pod, "FailedMount", message)

    def deadline_exceeded(self, pod: Pod, reason: str, message: str) -> None:
        self._normal(pod, reason, message)

    def backing_off(self, pod: Pod, container: Container) -> None:
        message = f"Back-off restarting failed container {container.name} in pod {pod_text(pod)}"
        self._warning(pod, "BackOff", message, container)

    def pull_backing_off(self, pod: Pod, container: Container) -> None:
        self._normal(pod, "BackOff", f'Back-off pulling image "{container.image}"', container)
        self._warning(pod, "Failed", f"Error: {image_pulls.BACKS_OFF}", container)

    def start_failed(self, pod: Pod, container: Container, reason: str, message: str) -> None:
        if reason in image_pulls.PULL_FAILURES:
            self._normal(pod, "Pulling", f'Pulling image "{container.image}"', container)
            self._warning(pod, "Failed", f'Failed to pull image "{container.image}": {message}', container)
        elif reason in _TOLD_OF_IMAGES:
            self._warning(pod, _TOLD_OF_IMAGES[reason], message, container)
        self._warning(pod, "Failed", f"Error: {reason if reason in image_pulls.IMAGE_FAILURES else message}", container)

    def sandbox_failed(self, pod: Pod, message: str) -> None:
        self._warning(pod, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {message}")

    def unhealthy(self, pod: Pod, due: DueProbe, answer: ProbeAnswer) -> None:
        kind = due.kind.capitalize()
        self._warning(pod, "Unhealthy", f"{kind} probe failed: {answer.output}", due.container)

    def post_start_failed(self, pod: Pod, container: Container) -> None:
        self._warning(pod, "FailedPostStartHook", "PostStartHook failed", container)

    def pre_stop_failed(self, pod: Pod, container: Container) -> None:
        self._warning(pod, "FailedPreStopHook", "PreStopHook failed", container)

    def resize_began(self, pod: Pod, message: str) -> None:
        self._normal(pod, "ResizeStarted", message)

    def resize_ended(self, pod: Pod, message: str) -> None:
        self._normal(pod, "ResizeCompleted", message)

    def resize_waits(self, pod: Pod, message: str) -> None:
        self._warning(pod, "ResizeDeferred", message)

    def refused(self, pod: Pod, reason: str, message: str, annotations: Mapping[str, str] | None = None) -> None:
        """A pod that the node doesn't take, or no longer."""
        if self._loudness != "none":
            about, node = _reference(pod, None), pod.spec.node_name
            self._recorder.event(about, "Warning", reason, message, host=node, annotations=annotations)

    def reclaiming(self, node: Node, resource: str) -> None:
        if self._loudness != "none":
            name = node.metadata.name
            about = ObjectReference(kind="Node", name=name, uid=name)
            message = f"Attempting to reclaim {resource}"
            self._recorder.event(about, "Warning", "EvictionThresholdMet", message, host=name)

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
    if container is not None:
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
