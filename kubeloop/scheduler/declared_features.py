"""What a pod needs that not every node can do: features that nodes declare in their status. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, PodSpec


def features_of(spec: PodSpec) -> frozenset[str]:
    """What a node has to be able to do for a pod, by the names that nodes declare."""
    return frozenset(_features(spec))


def _features(spec: PodSpec) -> Iterator[str]:
    containers: list[Container] = [*(spec.containers or ()), *spec.init_containers]
    if any(rule.action == "RestartAllContainers" for one in containers for rule in one.restart_policy_rules):
        yield "RestartAllContainersOnContainerExits"
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"
    mounting: list[Container | EphemeralContainer] = [*containers, *spec.ephemeral_containers]
    if any(mount.bind_mount_options for one in mounting for mount in one.volume_mounts):
        yield "VolumeBindMountOptions"
