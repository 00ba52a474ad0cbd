# SPDX-License-Identifier: Apache-2.0
"""Groups of containers of a pod that are handled differently. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, Pod

_COMMON_FIELDS = tuple(name for name in Container.__struct_fields__ if name in EphemeralContainer.__struct_fields__)


def is_sidecar(container: Container) -> bool:
    """Return True for a restartable init container."""
    return container.restart_policy == "Always"


def sidecar_containers_of(pod: Pod) -> list[Container]:
    """Return the restartable init containers."""
    return [one for one in pod.spec.init_containers if is_sidecar(one)]


def regular_init_containers_of(pod: Pod) -> list[Container]:
    """Return the init containers that must complete before the next one starts."""
    return [one for one in pod.spec.init_containers if not is_sidecar(one)]


def app_containers_of(pod: Pod) -> tuple[Container, ...]:
    """Return the app containers."""
    return pod.spec.containers or ()


def ephemeral_containers_of(pod: Pod) -> list[Container]:
    """Return the ephemeral containers converted to containers that are never restarted and not required."""
    return [_as_container(one) for one in pod.spec.ephemeral_containers]


def has_post_start(container: Container) -> bool:
    """Return True if the container has a postStart hook."""
    return container.lifecycle is not None and container.lifecycle.post_start is not None


def all_containers_of(pod: Pod) -> Iterator[Container]:
    """Yield init, app and ephemeral containers."""
    yield from pod.spec.init_containers
    yield from app_containers_of(pod)
    yield from ephemeral_containers_of(pod)


def find_container(pod: Pod, name: str) -> Container | None:
    """Return the container with this name, or None."""
    return next((one for one in all_containers_of(pod) if one.name == name), None)


def target_container_of(pod: Pod, name: str) -> str:
    """Return the container whose processes an ephemeral container is to see; empty if there is none."""
    return next((one.target_container_name for one in pod.spec.ephemeral_containers if one.name == name), "")


def format_pod(pod: Pod) -> str:
    """Format a pod as in the kubelet's messages."""
    meta = pod.metadata
    return f"{meta.name}_{meta.namespace}({meta.uid})"


def _as_container(ephemeral: EphemeralContainer) -> Container:
    same = {name: getattr(ephemeral, name) for name in _COMMON_FIELDS}
    return msgspec.structs.replace(Container(**same), restart_policy="Never", restart_policy_rules=())
