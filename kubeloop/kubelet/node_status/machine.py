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
from kubeloop.api.scalars.quantity import Quantity, QuantityFormat
from kubeloop.kubelet.cm.cgroups.resource_config import format_page_size
from kubeloop.kubelet.node_status.registration import architecture

_KIBI = 1024
_HUGE_PAGES = Path("/sys/kernel/mm/hugepages")


class HugePages(NamedTuple):
    """Huge pages of one size in bytes."""

    size: int
    pages: int

    @property
    def resource(self) -> str:
        """Name of the resource, such as hugepages-2Mi."""
        return f"hugepages-{Quantity.of(self.size, QuantityFormat.BINARY_SI)}"


class MachineResources(NamedTuple):
    """Resources of the machine; sizes in bytes."""

    cpus: int
    memory: int
    disk: int
    huge_pages: tuple[HugePages, ...] = ()


def read_resources(root: Path) -> MachineResources:
    """Return the resources; the disk is the file system of a folder."""
    found = {line.partition(":")[0]: line.split() for line in Path("/proc/meminfo").read_text().splitlines()}
    while not root.exists():
        root = root.parent
    memory, disk = int(found["MemTotal"][1]) * _KIBI, shutil.disk_usage(root).total
    return MachineResources(os.cpu_count() or 1, memory, disk, read_huge_pages())


def read_huge_pages(folder: Path = _HUGE_PAGES) -> tuple[HugePages, ...]:
    """Return the huge pages of this machine, also sizes of which it has none."""
    found = []
    for one in sorted(folder.iterdir()) if folder.is_dir() else ():
        size = int(one.name.removeprefix("hugepages-").removesuffix("kB")) * _KIBI
        found.append(HugePages(size, int((one / "nr_hugepages").read_text())))
    return tuple(found)


def huge_page_sizes(machine: MachineResources) -> tuple[str, ...]:
    """Return the sizes of huge pages as the kernel names them, such as 2MB."""
    return tuple(format_page_size(one.size) for one in machine.huge_pages)


def capacity_of(resources: MachineResources, pods: int) -> dict[str, str]:
    """Return the capacity of the node."""
    pages = resources.huge_pages
    return {
        "cpu": str(resources.cpus),
        "memory": f"{resources.memory // _KIBI}Ki",
        "ephemeral-storage": f"{resources.disk // _KIBI}Ki",
        "pods": str(pods),
        **{one.resource: str(Quantity.of(one.size * one.pages, QuantityFormat.BINARY_SI)) for one in pages},
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
