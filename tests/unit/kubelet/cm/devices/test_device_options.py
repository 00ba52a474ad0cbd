# SPDX-License-Identifier: Apache-2.0
"""Run options of devices: parts of several plugins together."""

from __future__ import annotations

import pytest

from kubeloop.kubelet.cm.devices.device_options import options_of
from kubeloop.kubelet.cm.devices.messages import ContainerAllocateResponse, DeviceSpec, PluginMount
from kubeloop.kubelet.cri.messages.container import CDIDevice, Device, Mount


def test_the_first_of_equal_names_counts(caplog: pytest.LogCaptureFixture) -> None:
    first = ContainerAllocateResponse(
        envs={"A": "1", "B": "2"},
        mounts=(PluginMount(container_path="/m", host_path="/h1", read_only=True),),
        devices=(DeviceSpec(container_path="/dev/x", host_path="/dev/x0", permissions="rw"),),
        annotations={"n": "1"},
        cdi_devices=(CDIDevice(name="v.com/c=1"),),
    )
    second = ContainerAllocateResponse(
        envs={"A": "other", "C": "3"},
        mounts=(PluginMount(container_path="/m", host_path="/h2"), PluginMount(container_path="/n", host_path="/h3")),
        devices=(DeviceSpec(container_path="/dev/x", host_path="/dev/x0", permissions="rw"),),
        annotations={"m": "2"},
        cdi_devices=(CDIDevice(name="v.com/c=1"), CDIDevice(name="v.com/c=2")),
    )
    found = options_of((first, second))
    assert found.environment == {"A": "1", "B": "2", "C": "3"}
    assert found.mounts == (
        Mount(container_path="/m", host_path="/h1", readonly=True),
        Mount(container_path="/n", host_path="/h3"),
    )
    assert found.devices == (Device(container_path="/dev/x", host_path="/dev/x0", permissions="rw"),)
    assert found.annotations == {"n": "1", "m": "2"}
    assert found.cdi_devices == (CDIDevice(name="v.com/c=1"), CDIDevice(name="v.com/c=2"))
    assert [record.args for record in caplog.records] == [("environment variable", "A"), ("mount", "/m")]
