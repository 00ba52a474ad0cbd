# SPDX-License-Identifier: Apache-2.0
"""Disk usage of folders: logs and local volumes of pods, as `du` counts it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.sync.containers import app_containers_of

_BLOCK_BYTES = 512
_EMPTY_DIR = "kubernetes.io~empty-dir"


class DiskUsage(NamedTuple):
    """Bytes and inodes."""

    bytes: int = 0
    inodes: int = 0

    def plus(self, other: DiskUsage) -> DiskUsage:
        """Return the sum of two usages."""
        return DiskUsage(self.bytes + other.bytes, self.inodes + other.inodes)


class PodDiskUsage(NamedTuple):
    """Usage of a pod's logs, by container, and of its volumes on the node's disk, by name."""

    logs: Mapping[str, DiskUsage]
    volumes: Mapping[str, DiskUsage]


def measure_pods(pods: Iterable[Pod], paths: NodePaths) -> dict[str, PodDiskUsage]:
    """Return the disk usage of pods, by UID."""
    return {pod.metadata.uid: _measure_pod(pod, paths) for pod in pods}


def _measure_pod(pod: Pod, paths: NodePaths) -> PodDiskUsage:
    logs, volumes = paths.logs(pod), paths.volumes(pod.metadata.uid) / _EMPTY_DIR
    containers = (*pod.spec.init_containers, *app_containers_of(pod))
    on_disk = [one.name for one in pod.spec.volumes if one.empty_dir is not None and one.empty_dir.medium != "Memory"]
    return PodDiskUsage(
        {one.name: folder_usage(logs / one.name) for one in containers},
        {name: folder_usage(volumes / name) for name in on_disk},
    )


def folder_usage(folder: Path) -> DiskUsage:
    """Return the usage of a folder and everything below it; hard links count once, other file systems not at all."""
    seen: set[int] = set()
    size = 0
    try:
        device = folder.lstat().st_dev
    except OSError:
        return DiskUsage()
    for path, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            try:
                found = os.lstat(os.path.join(path, name))
            except OSError:  # it was removed meanwhile
                continue
            if found.st_dev == device and found.st_ino not in seen:
                seen.add(found.st_ino)
                size += found.st_blocks * _BLOCK_BYTES
    return DiskUsage(size, len(seen))
