# SPDX-License-Identifier: Apache-2.0
"""Claim infos: what the kubelet knows about the claims of its pods, and their checkpoint format. Pure."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubeloop.api.features.gates import Features
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.kubelet.checkpoints.store import CorruptCheckpoint
from kubeloop.kubelet.cm.dra.messages import PreparedDevice

SKIP_ALL, SKIP_PREPARE, SKIP_UNPREPARE = "*", "NodePrepareResources", "NodeUnprepareResources"
_KIND, _API_VERSION = "DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1"


class UnsupportedClaimError(Exception):
    """Raised for a claim that the kubelet cannot handle; the message is upstream's."""


class ClaimDevice(msgspec.Struct, frozen=True):
    """Device of a claim, as its driver has prepared it (upstream: Device)."""

    pool_name: str = msgspec.field(default="", name="PoolName")
    device_name: str = msgspec.field(default="", name="DeviceName")
    share_id: str | None = msgspec.field(default=None, name="ShareID")
    request_names: tuple[str, ...] | None = msgspec.field(default=None, name="RequestNames")
    cdi_device_ids: tuple[str, ...] | None = msgspec.field(default=None, name="CDIDeviceIDs")

    def serves(self, request: str) -> bool:
        """Return True if the device belongs to a request; an empty request means all, as do no names."""
        return not request or not self.request_names or request in self.request_names


class DriverState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Devices of a claim by one driver, and operations that need no call of the driver."""

    # A field without a default is never omitted: upstream writes null.
    devices: tuple[ClaimDevice, ...] | None = msgspec.field(name="Devices")
    skip_node_operations: tuple[str, ...] = msgspec.field(default=(), name="skipNodeOperations")

    def skips(self, operation: str) -> bool:
        """Return True if an operation needs no call."""
        return SKIP_ALL in self.skip_node_operations or operation in self.skip_node_operations


class ClaimInfo(msgspec.Struct, frozen=True):
    """Claim that pods of the node use. It is added before the first call of a driver, and removed after the last."""

    claim_uid: str = msgspec.field(name="ClaimUID")
    claim_name: str = msgspec.field(name="ClaimName")
    namespace: str = msgspec.field(name="Namespace")
    pod_uids: Mapping[str, Mapping[str, str]] = msgspec.field(name="PodUIDs")  # a set, as Go encodes it
    drivers: Mapping[str, DriverState] = msgspec.field(name="DriverState")

    def with_pod(self, uid: str) -> ClaimInfo:
        """Return the claim with a reference of a pod."""
        return msgspec.structs.replace(self, pod_uids={**self.pod_uids, uid: {}})

    def without_pod(self, uid: str) -> ClaimInfo:
        """Return the claim without the reference of a pod."""
        return msgspec.structs.replace(self, pod_uids={one: {} for one in self.pod_uids if one != uid})

    def with_devices(self, driver: str, devices: Iterable[PreparedDevice]) -> ClaimInfo:
        """Return the claim with the devices of a driver's response, which replace those of an earlier one."""
        found = tuple(
            ClaimDevice(one.pool_name, one.device_name, one.share_id, one.request_names, one.cdi_device_ids)
            for one in devices
        )
        before = self.drivers.get(driver, DriverState(None))
        after = msgspec.structs.replace(before, devices=found or None)
        return msgspec.structs.replace(self, drivers={**self.drivers, driver: after})

    def cdi_devices(self, request: str) -> list[str]:
        """Return the CDI device IDs of a request; of all if it is empty."""
        devices = (one for state in self.drivers.values() for one in state.devices or ())
        return [id for one in devices if one.serves(request) for id in one.cdi_device_ids or ()]


def claim_info_of(claim: ResourceClaim, features: Features) -> ClaimInfo:
    """Return the info of a claim without pods and devices. Raises `UnsupportedClaimError`."""
    if claim.status.allocation is None:
        raise UnsupportedClaimError("not allocated")
    results = claim.status.allocation.devices.results
    by_driver: dict[str, list[Sequence[str]]] = {}
    for one in results:
        by_driver.setdefault(one.driver, []).append(one.skip_node_operations)
    states = {driver: DriverState(None, _common_skips(skips)) for driver, skips in by_driver.items()}
    has_skips = any(one.skip_node_operations for one in states.values())
    if has_skips and not features.is_enabled("DRAOptionalNodeOperations"):
        raise UnsupportedClaimError("DRAOptionalNodeOperations feature gate is disabled on kubelet")
    meta = claim.metadata
    return ClaimInfo(meta.uid, meta.name, meta.namespace, {}, states)


def _common_skips(skips: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the operations that all devices of a driver skip."""
    counts = Counter(op for one in skips for op in ((SKIP_ALL,) if SKIP_ALL in one else one))
    every = counts.pop(SKIP_ALL, 0)
    if every == len(skips):
        return (SKIP_ALL,)
    return tuple(sorted(op for op, count in counts.items() if count + every == len(skips)))


class _CheckpointData(msgspec.Struct):
    kind: str = ""
    api_version: str = msgspec.field(default="", name="apiVersion")
    claims: tuple[ClaimInfo, ...] | None = msgspec.field(default=None, name="ClaimInfoStateList")


class _Checkpoint(msgspec.Struct):
    data: str = msgspec.field(default="", name="Data")
    checksum: int = msgspec.field(default=0, name="Checksum")


def encode_claims(claims: Iterable[ClaimInfo]) -> bytes:
    """Encode the checkpoint of all claims, with a CRC-32 of its data."""
    data = msgspec.json.encode(_CheckpointData(_KIND, _API_VERSION, tuple(claims)))
    return msgspec.json.encode(_Checkpoint(data.decode(), zlib.crc32(data)))


def decode_claims(content: bytes) -> tuple[ClaimInfo, ...]:
    """Decode such a checkpoint. Raises `CorruptCheckpoint`."""
    try:
        found = msgspec.json.decode(content, type=_Checkpoint)
        if zlib.crc32(found.data.encode()) != found.checksum:
            raise CorruptCheckpoint("checkpoint is corrupted")
        return msgspec.json.decode(found.data, type=_CheckpointData).claims or ()
    except msgspec.MsgspecError as error:
        raise CorruptCheckpoint(str(error)) from None
