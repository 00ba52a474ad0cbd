# SPDX-License-Identifier: Apache-2.0
"""Claim infos: states of drivers, devices of requests, and the checkpoint format of upstream's kubelet."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import msgspec
import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.resource_v1 import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from kubeloop.grpc.message import decode_message, encode_message
from kubeloop.kubelet.checkpoints.store import CheckpointStore, CorruptCheckpoint
from kubeloop.kubelet.cm.dra.claim_info import ClaimInfo, UnsupportedClaimError, claim_info_of, decode_claims
from kubeloop.kubelet.cm.dra.claim_info_cache import CHECKPOINT, ClaimInfoCache
from kubeloop.kubelet.cm.dra.messages import NodePrepareResourcesResponse, PreparedDevice

OPTIONAL = Features(DEFAULT_FEATURES.enabled | {"DRAOptionalNodeOperations"})


def claim(*results: tuple[str, tuple[str, ...]], is_allocated: bool = True) -> ResourceClaim:
    """Return a claim with allocated devices: drivers, and the operations to skip."""
    found = tuple(DeviceRequestAllocationResult(driver=driver, skip_node_operations=skips) for driver, skips in results)
    allocation = AllocationResult(devices=DeviceAllocationResult(results=found)) if is_allocated else None
    meta = ObjectMeta(name="c", namespace="ns", uid="u1")
    return ResourceClaim(metadata=meta, status=ResourceClaimStatus(allocation=allocation))


def info() -> ClaimInfo:
    """Return a claim of one pod with a device of one driver, and another driver without devices."""
    found = claim_info_of(claim(("a", ()), ("b", ())), DEFAULT_FEATURES).with_pod("p1")
    device = PreparedDevice(request_names=("r",), pool_name="pool", device_name="d", cdi_device_ids=("v/c=1",))
    return found.with_devices("a", (device,))


def test_a_claim_that_is_not_allocated_is_unsupported() -> None:
    with pytest.raises(UnsupportedClaimError, match=r"^not allocated$"):
        claim_info_of(claim(is_allocated=False), DEFAULT_FEATURES)


@pytest.mark.parametrize(
    ("results", "skips"),
    [
        ([()], ()),
        ([("*",)], ("*",)),
        ([("*",), ()], ()),
        ([("*",), ("NodePrepareResources",)], ("NodePrepareResources",)),
        ([("*",), ("*", "NodePrepareResources")], ("*",)),
        ([("NodeUnprepareResources", "NodePrepareResources")], ("NodePrepareResources", "NodeUnprepareResources")),
        ([("NodePrepareResources",), ("NodeUnprepareResources",)], ()),
    ],
)
def test_a_driver_skips_what_all_its_devices_skip(results: list[tuple[str, ...]], skips: tuple[str, ...]) -> None:
    wanted = claim(*(("a", one) for one in results), ("b", ()))
    found = claim_info_of(wanted, OPTIONAL)
    assert found.drivers["a"].skip_node_operations == skips
    assert found.drivers["b"].skip_node_operations == ()
    if skips:
        with pytest.raises(UnsupportedClaimError, match="DRAOptionalNodeOperations feature gate is disabled"):
            claim_info_of(wanted, DEFAULT_FEATURES)


def test_devices_of_a_response_replace_those_of_an_earlier_one() -> None:
    two = PreparedDevice(cdi_device_ids=("v/c=2", "v/c=3"))
    found = info().with_devices("b", (two,)).with_devices("b", (two,))
    assert found.cdi_devices("") == ["v/c=1", "v/c=2", "v/c=3"]
    assert found.cdi_devices("r") == ["v/c=1", "v/c=2", "v/c=3"]  # no names: the device serves all requests
    assert found.cdi_devices("other") == ["v/c=2", "v/c=3"]
    assert found.with_devices("a", ()).cdi_devices("r") == ["v/c=2", "v/c=3"]


def test_the_checkpoint_has_the_format_of_upstream(tmp_path: Path) -> None:
    cache = ClaimInfoCache(CheckpointStore(tmp_path))
    cache.put(info())
    cache.checkpoint()
    written = json.loads((tmp_path / "dra_manager_state").read_bytes())
    assert list(written) == ["Data", "Checksum"]
    assert written["Checksum"] == zlib.crc32(written["Data"].encode())
    assert written["Data"] == (
        '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":[{"ClaimUID":"u1",'
        '"ClaimName":"c","Namespace":"ns","PodUIDs":{"p1":{}},"DriverState":{"a":{"Devices":[{"PoolName":"pool",'
        '"DeviceName":"d","ShareID":null,"RequestNames":["r"],"CDIDeviceIDs":["v/c=1"]}]},"b":{"Devices":null}}}]}'
    )


def test_a_restored_cache_has_the_claims_but_none_is_known_to_be_prepared(tmp_path: Path) -> None:
    cache = ClaimInfoCache(CheckpointStore(tmp_path))
    cache.restore()
    assert (tmp_path / CHECKPOINT).exists()
    cache.put(info())
    cache.set_prepared("ns", "c")
    cache.checkpoint()
    assert cache.is_prepared(info())
    assert cache.claims_in_use() == {("<any>",): 1, ("a",): 1, ("b",): 1}
    again = ClaimInfoCache(CheckpointStore(tmp_path))
    again.restore()
    assert list(again) == [info()]
    assert not again.is_prepared(info())
    assert again.claims_in_use() == {("<any>",): 0}
    assert again.claims_of_pod("p1") == ["c"]
    assert again.has_pod("p1")
    assert not again.has_pod("p2")


def test_a_damaged_checkpoint_is_not_used(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    cache = ClaimInfoCache(store)
    cache.put(info())
    cache.checkpoint()
    content = store.read(CHECKPOINT) or b""
    for broken in (content.replace(b"ns", b"nx"), content[:-3], b"", b"[]"):
        store.write(CHECKPOINT, broken)
        with pytest.raises(CorruptCheckpoint, match="failed to get checkpoint dra_manager_state"):
            ClaimInfoCache(store).restore()


def test_a_checkpoint_of_upstream_with_null_lists_is_read() -> None:
    device = '{"PoolName":"p","DeviceName":"d","ShareID":null,"RequestNames":null,"CDIDeviceIDs":null}'
    claims = (
        '[{"ClaimUID":"u","ClaimName":"n","Namespace":"s","PodUIDs":{},"DriverState":{"a":{"Devices":['
        + device
        + "]}}}]"
    )
    for text, count in ((claims, 1), ("null", 0)):
        data = f'{{"kind":"DRACheckpoint","apiVersion":"x","ClaimInfoStateList":{text}}}'
        content = msgspec.json.encode({"Data": data, "Checksum": zlib.crc32(data.encode())})
        found = decode_claims(content)
        assert len(found) == count
        assert all(one.cdi_devices("x") == [] for one in found)


def test_messages_have_the_field_numbers_of_the_service() -> None:
    device = b"\x0a\x01r\x12\x01p\x1a\x01d\x22\x01i\x2a\x01s"
    answer = b"\x0a" + bytes([len(device)]) + device + b"\x12\x01e"
    entry = b"\x0a\x01u\x12" + bytes([len(answer)]) + answer
    content = b"\x0a" + bytes([len(entry)]) + entry
    found = decode_message(NodePrepareResourcesResponse, content)
    one = found.claims["u"].devices[0]
    assert (one.request_names, one.pool_name, one.device_name, one.cdi_device_ids) == (("r",), "p", "d", ("i",))
    assert (one.share_id, found.claims["u"].error) == ("s", "e")
    assert encode_message(found) == content
