# SPDX-License-Identifier: Apache-2.0
"""Checkpoint of the device manager: upstream's format, checksum and damage."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.kubelet.checkpoints.checksum import fnv32a
from kubeloop.kubelet.checkpoints.store import CorruptCheckpoint
from kubeloop.kubelet.cm.devices.checkpoint import decode_checkpoint, encode_checkpoint
from kubeloop.kubelet.cm.devices.messages import ContainerAllocateResponse, DeviceSpec
from kubeloop.kubelet.cm.devices.pod_devices import AllocatedPluginDevices, PodDevices

RESPONSE = ContainerAllocateResponse(envs={"A": "b"})
# The value as Go's library spew prints it for the hash.
PRINTED = (
    "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:(string)uid "
    "ContainerName:(string)c ResourceName:(string)example.com/widget DeviceIDs:(checkpoint.DevicesPerNUMA)"
    "map[-1:[w3] 0:[w1 w2]] AllocResp:([]uint8)[10 6 10 1 65 18 1 98]}] RegisteredDevices:(map[string][]string)"
    "map[example.com/other:[] example.com/widget:[w1 w2 w3]]}"
)
FILE = {
    "Data": {
        "PodDeviceEntries": [
            {
                "PodUID": "uid",
                "ContainerName": "c",
                "ResourceName": "example.com/widget",
                "DeviceIDs": {"-1": ["w3"], "0": ["w1", "w2"]},
                "AllocResp": "CgYKAUESAWI=",
            }
        ],
        "RegisteredDevices": {"example.com/other": [], "example.com/widget": ["w1", "w2", "w3"]},
    },
    "Checksum": fnv32a(PRINTED),
}


def some_devices() -> PodDevices:
    pods = PodDevices()
    pods.insert("uid", "c", "example.com/widget", AllocatedPluginDevices({0: ("w1", "w2"), -1: ("w3",)}, RESPONSE))
    return pods


def test_the_file_has_upstreams_format() -> None:
    content = encode_checkpoint(some_devices(), {"example.com/widget": {"w1", "w2", "w3"}, "example.com/other": ()})
    assert json.loads(content) == FILE


def test_a_file_without_devices_has_null() -> None:
    found = json.loads(encode_checkpoint(PodDevices(), {}))
    printed = (
        "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)<nil> "
        "RegisteredDevices:(map[string][]string)map[]}"
    )
    assert found == {"Data": {"PodDeviceEntries": None, "RegisteredDevices": {}}, "Checksum": fnv32a(printed)}


def test_a_file_is_restored() -> None:
    pods = PodDevices()
    assert decode_checkpoint(json.dumps(FILE).encode(), pods) == {"example.com/other", "example.com/widget"}
    assert list(pods) == list(some_devices())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        json.dumps({**FILE, "Checksum": 1}).encode(),
        json.dumps(FILE).replace('"w3"', '"w4"').encode(),
        json.dumps(FILE).replace("CgYKAUESAWI=", "?").encode(),
    ],
    ids=["empty", "list", "no checksum", "checksum", "changed", "base 64"],
)
def test_damaged_files_are_refused(content: bytes) -> None:
    pods = PodDevices()
    with pytest.raises(CorruptCheckpoint):
        decode_checkpoint(content, pods)
    assert list(pods) == []


names = st.text(max_size=5)


@given(
    st.dictionaries(
        st.tuples(names, names, names),
        st.tuples(st.dictionaries(st.integers(-1, 3), st.lists(names).map(tuple)), names),
        max_size=4,
    )
)
def test_what_is_written_is_read(content: dict[tuple[str, str, str], tuple[dict[int, tuple[str, ...]], str]]) -> None:
    pods, restored = PodDevices(), PodDevices()
    for place, (by_node, path) in content.items():
        response = ContainerAllocateResponse(devices=(DeviceSpec(host_path=path),))
        pods.insert(*place, AllocatedPluginDevices(by_node, response))
    decode_checkpoint(encode_checkpoint(pods, {}), restored)
    assert list(restored) == list(pods)
