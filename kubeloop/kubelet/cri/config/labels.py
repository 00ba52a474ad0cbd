# SPDX-License-Identifier: Apache-2.0
"""Labels and annotations of sandboxes and containers: the state of a kubelet that survives its restart. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Container, Pod

POD_NAME, POD_NAMESPACE, POD_UID = (f"io.kubernetes.pod.{one}" for one in ("name", "namespace", "uid"))
CONTAINER_NAME = "io.kubernetes.container.name"
_DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"
_TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"
_HASH, _RESTART_COUNT, _MESSAGE_PATH, _MESSAGE_POLICY, _PRE_STOP, _PORTS = (
    f"io.kubernetes.container.{one}"
    for one in ("hash", "restartCount", "terminationMessagePath", "terminationMessagePolicy", "preStopHandler", "ports")
)


class ContainerFacts(NamedTuple):
    """Facts in the annotations of a container."""

    restart_count: int
    message_path: str
    message_policy: str


def sandbox_labels(pod: Pod) -> dict[str, str]:
    """Return the labels of a sandbox: those of the pod, and its identity."""
    return {**pod.metadata.labels, **_identity(pod)}


def container_labels(pod: Pod, container: Container) -> dict[str, str]:
    """Return the labels of a container."""
    return {**_identity(pod), CONTAINER_NAME: container.name}


def container_annotations(pod: Pod, container: Container, restart_count: int) -> dict[str, str]:
    """Return the annotations of a container."""
    found = {
        _HASH: blake2b(codec.encode(container), digest_size=8).hexdigest(),
        _RESTART_COUNT: str(restart_count),
        _MESSAGE_PATH: container.termination_message_path,
        _MESSAGE_POLICY: container.termination_message_policy,
    }
    if pod.metadata.deletion_grace_period_seconds is not None:
        found[_DELETION_GRACE] = str(pod.metadata.deletion_grace_period_seconds)
    if pod.spec.termination_grace_period_seconds is not None:
        found[_TERMINATION_GRACE] = str(pod.spec.termination_grace_period_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        found[_PRE_STOP] = codec.encode(container.lifecycle.pre_stop).decode()
    if container.ports:
        found[_PORTS] = codec.encode(container.ports).decode()
    return found


def read_container_facts(annotations: Mapping[str, str]) -> ContainerFacts:
    """Read the annotations of a container; those of another program count as absent."""
    count = annotations.get(_RESTART_COUNT, "")
    restart_count = int(count) if count.isascii() and count.isdigit() else 0
    return ContainerFacts(restart_count, annotations.get(_MESSAGE_PATH, ""), annotations.get(_MESSAGE_POLICY, ""))


def _identity(pod: Pod) -> dict[str, str]:
    about = pod.metadata
    return {POD_NAME: about.name, POD_NAMESPACE: about.namespace, POD_UID: about.uid}
