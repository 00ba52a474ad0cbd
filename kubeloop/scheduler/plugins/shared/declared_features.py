# SPDX-License-Identifier: Apache-2.0
"""Node features that a pod requires, by the names that nodes declare in their status. Pure."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, PodSpec

_NONE: frozenset[str] = frozenset()


def required_node_features(spec: PodSpec) -> frozenset[str]:
    """Return the features that a node must declare for a pod."""
    found: set[str] = set()
    containers: tuple[Container | EphemeralContainer, ...] = (
        *(spec.containers or ()), *spec.init_containers, *spec.ephemeral_containers,
    )  # fmt: skip
    for one in containers:
        if one.restart_policy_rules and _restarts_all(one):
            found.add("RestartAllContainersOnContainerExits")
        if one.volume_mounts and any(mount.bind_mount_options for mount in one.volume_mounts):
            found.add("VolumeBindMountOptions")
    if spec.host_network and spec.host_users is False:
        found.add("UserNamespacesHostNetworkSupport")
    return frozenset(found) if found else _NONE


def _restarts_all(container: Container | EphemeralContainer) -> bool:
    """Return True if a restart rule restarts all containers; never for an ephemeral container."""
    rules = container.restart_policy_rules if isinstance(container, Container) else ()
    return any(rule.action == "RestartAllContainers" for rule in rules)
