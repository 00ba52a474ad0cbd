# SPDX-License-Identifier: Apache-2.0
"""Records SELinux labels and policies of volume uses, and finds pods that cannot share a volume. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, Pod, SELinuxOptions
from kubeloop.runtime.objects.keys import ObjectKey

MOUNT_OPTION: Final = "MountOption"
RECURSIVE: Final = "Recursive"
_NO_LABEL: Final = ":::"


class VolumeUse(NamedTuple):
    """Label and policy with which one pod uses a volume."""

    label: str
    policy: str


class SELinuxConflict(NamedTuple):
    """A conflict as reported on one of two pods."""

    what: str
    pod: ObjectKey
    value: str
    other: ObjectKey
    other_value: str

    @property
    def reason(self) -> str:
        """Reason of the event."""
        return f"{self.what}Conflict"

    @property
    def message(self) -> str:
        """Message of the event; does not name pods of other namespaces. Upstream's text, which lacks a blank."""
        end = "If both pods land on the same node, only one of them may access the volume."
        if self.pod.namespace == self.other.namespace:
            other = f'with {self.what} "{self.other_value}"'
            with_whom = f"conflicts with pod {self.other.name} that uses the same volume as this pod {other}"
            return f'{self.what} "{self.value}" {with_whom}. {end}'
        with_whom = f"conflicts with another pod that uses the same volume as this pod with a different {self.what}"
        return f'{self.what}"{self.value}" {with_whom}. {end}'


class VolumeCache:
    """Uses of all volumes, by pod."""

    def __init__(self) -> None:
        self._volumes: dict[str, dict[ObjectKey, VolumeUse]] = {}
        self._pods: dict[ObjectKey, set[str]] = {}

    def add_volume(self, volume: str, pod: ObjectKey, use: VolumeUse) -> list[SELinuxConflict]:
        """Record a use; returns the conflicts that it causes, none if it was known."""
        users = self._volumes.setdefault(volume, {})
        if users.get(pod) == use:
            return []
        users[pod] = use
        self._pods.setdefault(pod, set()).add(volume)
        return [told for other, theirs in users.items() for told in _between(pod, use, other, theirs)]

    def all_conflicts(self) -> Iterator[SELinuxConflict]:
        """Return all current conflicts, each as seen by both pods."""
        for users in self._volumes.values():
            for (pod, use), (other, theirs) in combinations(users.items(), 2):
                yield from _between(pod, use, other, theirs)

    def delete_pod(self, pod: ObjectKey) -> None:
        """Drop the uses of a pod."""
        for volume in self._pods.pop(pod, ()):
            users = self._volumes[volume]
            del users[pod]
            if not users:
                del self._volumes[volume]


def _between(pod: ObjectKey, use: VolumeUse, other: ObjectKey, theirs: VolumeUse) -> Iterable[SELinuxConflict]:
    """Return the conflicts between two uses, once for each pod."""
    if use.policy != theirs.policy:
        yield SELinuxConflict("SELinuxChangePolicy", pod, use.policy, other, theirs.policy)
        yield SELinuxConflict("SELinuxChangePolicy", other, theirs.policy, pod, use.policy)
    if labels_conflict(use.label, theirs.label):
        yield SELinuxConflict("SELinuxLabel", pod, use.label, other, theirs.label)
        yield SELinuxConflict("SELinuxLabel", other, theirs.label, pod, use.label)


def labels_conflict(one: str, other: str) -> bool:
    """Return True if two labels certainly differ; nodes complete the first three parts, but never the level."""
    parts, others = _parts(one), _parts(other)
    if parts[3] != others[3]:
        return True
    return any(a and b and a != b for a, b in zip(parts[:3], others[:3], strict=True))


def _parts(label: str) -> list[str]:
    parts = label.split(":", 3) if label else []
    return parts + [""] * (4 - len(parts))


def label_of(options: SELinuxOptions) -> str:
    """Format the label; empty if no part is set."""
    label = ":".join((options.user, options.role, options.type, options.level))
    return "" if label == _NO_LABEL else label


def labels_of(pod: Pod, volume: str) -> set[str]:
    """Return the labels of the containers that mount a volume of the pod."""
    found = set()
    for container in containers_of(pod):
        options = _options(pod, container)
        if options is not None and any(mount.name == volume for mount in container.volume_mounts):
            found.add(label_of(options))
    return found


def is_mounted(pod: Pod, volume: str) -> bool:
    """Return True if a container mounts the volume."""
    return any(mount.name == volume for one in containers_of(pod) for mount in one.volume_mounts)


def containers_of(pod: Pod) -> Iterable[Container | EphemeralContainer]:
    """Return all containers of a pod."""
    return (*pod.spec.init_containers, *(pod.spec.containers or ()), *pod.spec.ephemeral_containers)


def _options(pod: Pod, container: Container | EphemeralContainer) -> SELinuxOptions | None:
    """Return the container's options, or else those of its pod."""
    own, of_pod = container.security_context, pod.spec.security_context
    if own is not None and own.se_linux_options is not None:
        return own.se_linux_options
    return None if of_pod is None else of_pod.se_linux_options


def use_of(pod: Pod, labels: set[str], takes_label: bool) -> VolumeUse:
    """Return the label and policy of a use: one label as a mount option, or recursive relabelling."""
    context = pod.spec.security_context
    wanted = context.se_linux_change_policy if context is not None else None
    label = next(iter(labels), "") if takes_label and wanted != RECURSIVE else ""
    policy = wanted or MOUNT_OPTION
    return VolumeUse(label, policy if takes_label and label else RECURSIVE)
