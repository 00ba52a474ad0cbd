# SPDX-License-Identifier: Apache-2.0
"""Run options: what allocated devices and resource claims add to the settings of a container. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubeloop.kubelet.cri.messages.container import CDIDevice, Device, Mount


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Environment, mounts, devices and annotations of a container besides those of its spec."""

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    cdi_devices: tuple[CDIDevice, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


def merge_run_options(options: Iterable[RunOptions]) -> RunOptions:
    """Return the options of several providers as one; later ones replace equal names of earlier ones."""
    found = list(options)
    return RunOptions(
        {name: value for one in found for name, value in one.environment.items()},
        tuple(mount for one in found for mount in one.mounts),
        tuple(device for one in found for device in one.devices),
        tuple(device for one in found for device in one.cdi_devices),
        {name: value for one in found for name, value in one.annotations.items()},
    )
