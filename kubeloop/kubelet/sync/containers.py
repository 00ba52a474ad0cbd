"""The containers of a pod in the groups that the agent treats differently. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, Pod

_ALIKE = tuple(name for name in Container.__struct_fields__ if name in EphemeralContainer.__struct_fields__)


def is_sidecar(container: Container) -> bool:
    """Whether an init container is one that stays."""
    return container.restart_policy == "Always"


def sidecars_of(pod: Pod) -> list[Container]:
    return [one for one in pod.spec.init_containers if is_sidecar(one)]


def one_shots_of(pod: Pod) -> list[Container]:
    """Init containers that have to end before the next begins."""
    return [one for one in pod.spec.init_containers if not is_sidecar(one)]


def regular_of(pod: Pod) -> tuple[Container, ...]:
    return pod.spec.containers or ()


def ephemeral_of(pod: Pod) -> list[Container]:
    """Containers for debugging, as if they were others: never restarted, never asked for."""
    return [_as_container(one) for one in pod.spec.ephemeral_containers]


def has_post_start(container: Container) -> bool:
    return container.lifecycle is not None and container.lifecycle.post_start is not None


def all_of(pod: Pod) -> Iterator[Container]:
    yield from pod.spec.init_containers
    yield from regular_of(pod)
    yield from ephemeral_of(pod)


def container_named(pod: Pod, name: str) -> Container | None:
    return next((one for one in all_of(pod) if one.name == name), None)


def pod_text(pod: Pod) -> str:
    """A pod as the kubelet's messages name it."""
    meta = pod.metadata
    return f"{meta.name}_{meta.namespace}({meta.uid})"


def _as_container(ephemeral: EphemeralContainer) -> Container:
    same = {name: getattr(ephemeral, name) for name in _ALIKE}
    return msgspec.structs.replace(Container(**same), restart_policy="Never", restart_policy_rules=())
