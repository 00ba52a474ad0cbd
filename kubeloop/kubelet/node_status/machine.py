# SPDX-License-Identifier: Apache-2.0
"""Facts about the machine of a real node: resources, kernel, identifiers."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from kubeloop import KUBERNETES_VERSION
from kubeloop.api.generated.core_v1 import NodeSystemInfo
from kubeloop.kubelet.cri.config.linux_resources import format_page_size
from kubeloop.kubelet.node_status.registration import architecture

_KIBI = 1024
# Reserved for hard eviction, as upstream's defaults: memory, and a share of the disk.
_EVICTION_MEMORY = 100 << 20
_EVICTION_DISK_PERCENT = 10


class MachineResources(NamedTuple):
    """Resources of the machine; sizes in bytes."""

    cpus: int
    memory: int
    disk: int


def read_resources(root: Path) -> MachineResources:
    """Return the resources; the disk is the file system of a folder."""
    found = {line.partition(":")[0]: line.split() for line in Path("/proc/meminfo").read_text().splitlines()}
    while not root.exists():
        root = root.parent
    return MachineResources(os.cpu_count() or 1, int(found["MemTotal"][1]) * _KIBI, shutil.disk_usage(root).total)


def read_huge_page_sizes(folder: Path = Path("/sys/kernel/mm/hugepages")) -> tuple[str, ...]:
    """Return the sizes of huge pages of this machine, such as 2MB."""
    names = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else ()
    sizes = (int(name.removeprefix("hugepages-").removesuffix("kB")) for name in names)
    return tuple(format_page_size(size * _KIBI) for size in sizes)


def capacity_of(resources: MachineResources, pods: int) -> dict[str, str]:
    """Return the capacity of the node."""
    return {
        "cpu": str(resources.cpus),
        "memory": f"{resources.memory // _KIBI}Ki",
        "ephemeral-storage": f"{resources.disk // _KIBI}Ki",
        "pods": str(pods),
    }


def allocatable_of(resources: MachineResources) -> dict[str, str]:
    """Return the resources that pods may use: the capacity without what hard eviction keeps free."""
    return {
        "memory": f"{(resources.memory - _EVICTION_MEMORY) // _KIBI}Ki",
        "ephemeral-storage": str(resources.disk * (100 - _EVICTION_DISK_PERCENT) // 100),
    }


def system_info(runtime: str) -> NodeSystemInfo:
    """Return the node info of this machine."""
    return NodeSystemInfo(
        architecture=architecture(),
        boot_id=_read("/proc/sys/kernel/random/boot_id"),
        container_runtime_version=runtime,
        kernel_version=platform.release(),
        kube_proxy_version="",
        kubelet_version=f"v{KUBERNETES_VERSION}",
        machine_id=_read("/etc/machine-id"),
        operating_system="linux",
        os_image=_os_image(),
        system_uuid=_read("/sys/class/dmi/id/product_uuid") or _read("/etc/machine-id"),
    )


def _os_image() -> str:
    for line in _read("/etc/os-release").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return "".join(shlex.split(value))
    return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
