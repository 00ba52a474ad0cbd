"""Sums the resource requests of pods, in thousandths. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.controllers.horizontal_pod_autoscaler.metrics import MetricsError


def requests_of(pods: Iterable[Pod], resource: str, container: str = "") -> dict[str, int]:
    """Return the requests by pod name: of one container, else of the pod level, else of all long-running containers."""
    return {pod.metadata.name: _request(pod, resource, container) for pod in pods}


def _request(pod: Pod, resource: str, container: str) -> int:
    said = pod.spec.resources
    if not container and said is not None and said.requests:
        if resource not in said.requests:
            raise MetricsError(f"missing pod-level request for {resource} in Pod {pod.metadata.name}")
        return parse_quantity(str(said.requests[resource])).milli_value()
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    lasting: list[Container] = [*(pod.spec.containers or ()), *sidecars]
    counted = [one for one in lasting if container in ("", one.name)]
    if container and not counted:
        raise MetricsError(f"container {container} not found in Pod {pod.metadata.name}")
    return sum(_container_request(pod, one, resource) for one in counted)


def _container_request(pod: Pod, container: Container, resource: str) -> int:
    requests = container.resources.requests if container.resources is not None else {}
    if resource not in requests:
        where = f"container {container.name} of Pod {pod.metadata.name}"
        raise MetricsError(f"missing request for {resource} in {where}")
    return parse_quantity(str(requests[resource])).milli_value()
