# SPDX-License-Identifier: Apache-2.0
"""Run options of a container's devices, from the responses of their plugins. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TypeVar

from kubeloop.kubelet.cm.devices.messages import ContainerAllocateResponse, DeviceSpec, PluginMount
from kubeloop.kubelet.cm.run_options import RunOptions
from kubeloop.kubelet.cri.messages.container import CDIDevice, Device, Mount

T = TypeVar("T")

log = logging.getLogger(__name__)


def options_of(responses: Iterable[ContainerAllocateResponse]) -> RunOptions:
    """Return the options of all devices of a container; of equal names and paths the first counts."""
    environment: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, PluginMount] = {}
    devices: dict[str, DeviceSpec] = {}
    cdi_devices: dict[str, CDIDevice] = {}
    for response in responses:
        _add("environment variable", environment, response.envs.items())
        _add("annotation", annotations, response.annotations.items())
        _add("mount", mounts, ((one.container_path, one) for one in response.mounts))
        _add("device", devices, ((one.container_path, one) for one in response.devices))
        for one in response.cdi_devices:
            cdi_devices.setdefault(one.name, one)
    return RunOptions(
        environment,
        tuple(
            Mount(container_path=path, host_path=one.host_path, readonly=one.read_only) for path, one in mounts.items()
        ),
        tuple(
            Device(container_path=path, host_path=one.host_path, permissions=one.permissions)
            for path, one in devices.items()
        ),
        tuple(cdi_devices.values()),
        annotations,
    )


def _add(what: str, found: dict[str, T], more: Iterable[tuple[str, T]]) -> None:
    for name, value in more:
        if found.setdefault(name, value) != value:
            log.error("%s %s of a container has conflicting settings of its device plugins", what, name)
