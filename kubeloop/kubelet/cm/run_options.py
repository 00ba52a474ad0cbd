# SPDX-License-Identifier: Apache-2.0
"""Run options: what allocated CPUs, memory, devices and claims add to the settings of a container. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubeloop.kubelet.cri.messages.container import CDIDevice, Device, Mount


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Settings of a container besides those of its spec."""

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    cdi_devices: tuple[CDIDevice, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cpuset_cpus: str = ""  # CPUs that it may use; empty if any
    cpuset_mems: str = ""  # NUMA nodes whose memory it may use; empty if any
    has_exclusive_cpus: bool = False  # no CPU quota


def merge_run_options(options: Iterable[RunOptions]) -> RunOptions:
    """Return the options of several providers as one; later ones replace equal names of earlier ones."""
    found = list(options)
    return RunOptions(
        {name: value for one in found for name, value in one.environment.items()},
        tuple(mount for one in found for mount in one.mounts),
        tuple(device for one in found for device in one.devices),
        tuple(device for one in found for device in one.cdi_devices),
        {name: value for one in found for name, value in one.annotations.items()},
        next((one.cpuset_cpus for one in found if one.cpuset_cpus), ""),
        next((one.cpuset_mems for one in found if one.cpuset_mems), ""),
        any(one.has_exclusive_cpus for one in found),
    )
