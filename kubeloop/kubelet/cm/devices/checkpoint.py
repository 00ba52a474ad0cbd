# SPDX-License-Identifier: Apache-2.0
"""Checkpoint of the device manager, in upstream's format `kubelet_internal_checkpoint`. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping

import msgspec

from kubeloop.grpc.message import decode_message, encode_message
from kubeloop.kubelet.checkpoints.checksum import fnv32a, go_map, go_slice, go_struct
from kubeloop.kubelet.checkpoints.store import CorruptCheckpoint
from kubeloop.kubelet.cm.devices.messages import ContainerAllocateResponse
from kubeloop.kubelet.cm.devices.pod_devices import AllocatedPluginDevices, PodDevices
from kubeloop.protobuf_wire import ProtobufError

CHECKPOINT_NAME = "kubelet_internal_checkpoint"


class PodDevicesEntry(msgspec.Struct, frozen=True, rename="pascal"):
    """Devices of one resource in a container; the response is encoded in base 64."""

    pod_uid: str = msgspec.field(name="PodUID", default="")
    container_name: str = ""
    resource_name: str = ""
    device_ids: dict[int, list[str]] | None = msgspec.field(name="DeviceIDs", default=None)
    alloc_resp: str | None = None


class DeviceCheckpointData(msgspec.Struct, frozen=True, rename="pascal"):
    """Devices of pods, and the healthy devices of each resource."""

    pod_device_entries: list[PodDevicesEntry] | None = None
    registered_devices: dict[str, list[str]] | None = None


class DeviceCheckpoint(msgspec.Struct, frozen=True, rename="pascal"):
    """File: data with a checksum."""

    data: DeviceCheckpointData = DeviceCheckpointData()
    checksum: int = 0


def encode_checkpoint(pods: PodDevices, healthy: Mapping[str, Iterable[str]]) -> bytes:
    """Return the content of the file."""
    entries = [
        PodDevicesEntry(
            uid,
            container,
            resource,
            {node: list(ids) for node, ids in devices.by_node.items()},
            base64.b64encode(encode_message(devices.response)).decode(),
        )
        for uid, container, resource, devices in pods
    ]
    data = DeviceCheckpointData(entries or None, {name: sorted(ids) for name, ids in healthy.items()})
    return msgspec.json.encode(DeviceCheckpoint(data, checksum_of(data)))


def decode_checkpoint(content: bytes, pods: PodDevices) -> frozenset[str]:
    """Add the devices of a file to those of pods; returns the registered resources. Raises `CorruptCheckpoint`."""
    try:
        found = msgspec.json.decode(content, type=DeviceCheckpoint)
        if found.checksum != checksum_of(found.data):
            raise CorruptCheckpoint("checkpoint is corrupted")
        entries = [(entry, _response_of(entry)) for entry in found.data.pod_device_entries or ()]
    except (msgspec.MsgspecError, ProtobufError, ValueError) as error:
        raise CorruptCheckpoint(str(error)) from None
    for entry, response in entries:
        by_node = {node: tuple(ids) for node, ids in (entry.device_ids or {}).items()}
        devices = AllocatedPluginDevices(by_node, response)
        pods.insert(entry.pod_uid, entry.container_name, entry.resource_name, devices)
    return frozenset(found.data.registered_devices or ())


def checksum_of(data: DeviceCheckpointData) -> int:
    """Return the checksum of the data, as upstream computes it."""
    entries, registered = data.pod_device_entries, data.registered_devices
    devices = None if registered is None else {name: go_slice(ids) for name, ids in registered.items()}
    fields = {
        "PodDeviceEntries": (
            "[]checkpoint.PodDevicesEntry",
            go_slice(None if entries is None else map(_go_entry, entries)),
        ),
        "RegisteredDevices": ("map[string][]string", go_map(devices)),
    }
    return fnv32a(f"(checkpoint.checkpointData){go_struct(fields)}")


def _go_entry(entry: PodDevicesEntry) -> str:
    content = None if entry.alloc_resp is None else base64.b64decode(entry.alloc_resp)
    fields = {
        "PodUID": ("string", entry.pod_uid),
        "ContainerName": ("string", entry.container_name),
        "ResourceName": ("string", entry.resource_name),
        "DeviceIDs": ("checkpoint.DevicesPerNUMA", _go_devices(entry.device_ids)),
        "AllocResp": ("[]uint8", go_slice(None if content is None else map(str, content))),
    }
    return go_struct(fields)


def _go_devices(devices: Mapping[int, list[str]] | None) -> str:
    if devices is None:
        return "<nil>"
    return "map[" + " ".join(f"{node}:{go_slice(devices[node])}" for node in sorted(devices)) + "]"


def _response_of(entry: PodDevicesEntry) -> ContainerAllocateResponse:
    return decode_message(ContainerAllocateResponse, base64.b64decode(entry.alloc_resp or "", validate=True))
