# SPDX-License-Identifier: Apache-2.0
"""Tests of device pool summaries: devices, partitions, shareable capacity."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.generated.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from kubeloop.api.generated.resource_v1alpha3 import ResourcePoolStatusRequest, ResourcePoolStatusRequestSpec
from kubeloop.controllers.resourcepoolstatusrequest import expiration_of
from kubeloop.controllers.resourcepoolstatusrequest.pool_status import (
    is_incomplete,
    pool_allocations,
    pools_of,
    status_of,
)

DRIVER = "gpu.example.com"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TYPE = f"{DRIVER}/type"


def piece(
    *devices: Any, pool: str = "p", generation: int = 1, of: int = 1, name: str = "s", **spec: Any
) -> ResourceSlice:
    known = {"name": pool, "generation": generation, "resourceSliceCount": of}
    plain = {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": known, "devices": list(devices), **spec}}
    return codec.from_plain(plain, ResourceSlice)


def device(name: str, **facts: Any) -> dict[str, Any]:
    return {"name": name, **facts}


def part(name: str, kind: str, cost: str, attribute: str = TYPE) -> dict[str, Any]:
    consumed = [{"counterSet": "gpu", "counters": {"memory": {"value": cost}}}]
    return device(name, attributes={attribute: {"string": kind}}, consumesCounters=consumed)


def memory(amount: str) -> dict[str, Any]:
    return {"sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": amount}}}]}


def claim(*results: dict[str, Any]) -> ResourceClaim:
    full = [{"request": "r", "driver": DRIVER, "pool": "p", **one} for one in results]
    return codec.from_plain({"status": {"allocation": {"devices": {"results": full}}}}, ResourceClaim)


def rule(effect: str = "NoSchedule", **selector: str) -> DeviceTaintRule:
    plain = {"spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}}}
    return codec.from_plain(plain, DeviceTaintRule)


def pools(*slices: ResourceSlice, claims: Any = (), rules: Any = (), **spec: Any) -> list[dict[str, Any]]:
    asked = codec.from_plain({"driver": DRIVER, **spec}, ResourcePoolStatusRequestSpec)
    return pools_of(asked, slices, pool_allocations(claims, DRIVER), rules)


def counts(pool: dict[str, Any]) -> tuple[int, ...]:
    return tuple(pool[f"{name}Devices"] for name in ("total", "allocated", "available", "unavailable"))


# Whole devices


def test_devices_of_all_slices_are_counted_and_pools_are_sorted() -> None:
    found = pools(
        piece(device("a"), of=2, pool="q", name="s1"),
        piece(device("b"), device("c"), of=2, pool="q", name="s2"),
        piece(),
    )
    assert [(one["poolName"], counts(one), one["resourceSliceCount"]) for one in found] == [
        ("p", (0, 0, 0, 0), 1),
        ("q", (3, 0, 3, 0), 2),
    ]


def test_other_drivers_and_pools_are_excluded() -> None:
    other = codec.from_plain({"spec": {"driver": "x", "pool": {"name": "p"}}}, ResourceSlice)
    assert [one["poolName"] for one in pools(piece(), piece(pool="q"), other)] == ["p", "q"]
    assert [one["poolName"] for one in pools(piece(), piece(pool="q"), poolName="q")] == ["q"]


def test_only_the_latest_generation_counts() -> None:
    (found,) = pools(piece(device("a"), device("b"), generation=1), piece(device("c"), generation=2, name="t"))
    assert (found["generation"], counts(found)) == (2, (1, 0, 1, 0))


def test_incomplete_pool_has_no_counts() -> None:
    (found,) = pools(piece(device("a"), of=3), piece(device("b"), of=3, name="t"))
    assert found == {
        "driver": DRIVER,
        "poolName": "p",
        "generation": 1,
        "validationError": f"PoolIncomplete: pool {DRIVER}/p is incomplete: observed 2/3 slices at generation 1",
    }
    assert is_incomplete([found])
    assert not is_incomplete(pools(piece()))


def test_node_is_set_if_all_slices_agree() -> None:
    assert pools(piece(nodeName="n"))[0]["nodeName"] == "n"
    assert "nodeName" not in pools(piece(nodeName="n", of=2), piece(nodeName="m", of=2, name="t"))[0]
    assert "nodeName" not in pools(piece())[0]


def test_shared_device_counts_once_and_admin_access_does_not() -> None:
    claims = [
        claim({"device": "a"}, {"device": "a"}),
        claim({"device": "b", "adminAccess": True}),
        claim({"device": "c", "pool": "q"}, {"device": "d", "driver": "x"}),
        codec.from_plain({}, ResourceClaim),
    ]
    assert counts(pools(piece(device("a"), device("b")), claims=claims)[0]) == (2, 1, 1, 0)


@pytest.mark.parametrize(("effect", "unavailable"), [("NoSchedule", 1), ("NoExecute", 1), ("None", 0)])
def test_tainted_devices_are_unavailable(effect: str, unavailable: int) -> None:
    tainted = device("a", taints=[{"key": "k", "effect": effect}])
    assert counts(pools(piece(tainted, device("b")))[0])[3] == unavailable
    assert counts(pools(piece(device("a"), device("b")), rules=[rule(effect, device="a")])[0])[3] == unavailable


@pytest.mark.parametrize(
    ("selector", "unavailable"),
    [
        ({}, 2),
        ({"driver": DRIVER, "pool": "p"}, 2),
        ({"pool": "p", "device": "a"}, 1),
        ({"driver": "x"}, 0),
        ({"pool": "q"}, 0),
        ({"device": "z"}, 0),
    ],
)
def test_taint_rules_select_devices(selector: dict[str, str], unavailable: int) -> None:
    assert counts(pools(piece(device("a"), device("b")), rules=[rule(**selector)])[0])[3] == unavailable


def test_a_rule_without_a_selector_selects_nothing() -> None:
    bare = codec.from_plain({"spec": {"taint": {"key": "k", "effect": "NoExecute"}}}, DeviceTaintRule)
    assert counts(pools(piece(device("a")), rules=[bare])[0]) == (1, 0, 1, 0)


def test_allocated_tainted_devices_do_not_cause_negative_counts() -> None:
    tainted = device("a", taints=[{"key": "k", "effect": "NoExecute"}])
    assert counts(pools(piece(tainted), claims=[claim({"device": "a"})])[0]) == (1, 1, 0, 1)


# Partitions

PARTS = (
    part("big", "large", "40Gi"),
    part("s0", "small", "10Gi"),
    part("s1", "small", "10Gi"),
    part("s2", "small", "10Gi"),
)


def partitions(pool: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(one["type"], one["total"], one["allocatable"]) for one in pool.get("partitionSummary", ())]


def test_partitions_are_counted_by_remaining_counters() -> None:
    whole = piece(*PARTS, partitionTypeAttribute=TYPE, **memory("40Gi"))
    assert partitions(pools(whole)[0]) == [("large", 1, 1), ("small", 3, 3)]
    used = [claim({"device": "s1"})]
    assert partitions(pools(whole, claims=used)[0]) == [("large", 1, 0), ("small", 3, 2)]


def test_counters_limit_available_devices() -> None:
    assert partitions(pools(piece(*PARTS, partitionTypeAttribute=TYPE, **memory("25Gi")))[0]) == [
        ("large", 1, 0),
        ("small", 3, 2),
    ]


def test_request_sets_the_partition_attribute_if_no_slice_does() -> None:
    whole = piece(*PARTS, **memory("40Gi"))
    assert partitions(pools(whole)[0]) == []
    assert len(partitions(pools(whole, defaultPartitionTypeAttribute=TYPE)[0])) == 2
    declared = piece(*PARTS, partitionTypeAttribute=TYPE, **memory("40Gi"))
    assert len(partitions(pools(declared, defaultPartitionTypeAttribute="x.example.com/no")[0])) == 2


def test_attribute_of_the_drivers_domain_may_be_unqualified() -> None:
    bare = piece(part("a", "small", "1Gi", "type"), partitionTypeAttribute=TYPE, **memory("4Gi"))
    assert partitions(pools(bare)[0]) == [("small", 1, 1)]


def test_devices_without_counters_are_not_partitions() -> None:
    whole = piece(device("whole"), *PARTS[1:], partitionTypeAttribute=TYPE, **memory("40Gi"))
    assert partitions(pools(whole)[0]) == [("small", 3, 3)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            piece(*PARTS, partitionTypeAttribute=TYPE),
            f"PartitionTypeMissing: pool {DRIVER}/p declares partitionTypeAttribute but publishes no sharedCounters",
        ),
        (
            piece(part("a", "x", "1", "other"), partitionTypeAttribute=TYPE, **memory("4")),
            f'PartitionTypeMissing: device "a" in pool {DRIVER}/p does not carry partition type attribute "{TYPE}"',
        ),
        (
            piece(part("a", "x", "1"), part("b", "x", "2"), partitionTypeAttribute=TYPE, **memory("4")),
            f'PartitionCostMismatch: devices of partition type "x" in pool {DRIVER}/p consume different counters',
        ),
        (
            piece(*(part(f"d{i}", f"t{i}", "1") for i in range(33)), partitionTypeAttribute=TYPE, **memory("4")),
            f"PartitionSummaryOverCap: pool {DRIVER}/p has 33 partition types, exceeding the maximum of 32",
        ),
    ],
)
def test_invalid_partitions_are_reported_and_counts_are_kept(wrong: ResourceSlice, message: str) -> None:
    (found,) = pools(wrong)
    assert found["validationError"] == message
    assert "partitionSummary" not in found
    assert found["totalDevices"] == len(wrong.spec.devices)
    assert not is_incomplete([found])


def test_long_error_is_truncated() -> None:
    (found,) = pools(
        piece(part("a", "é" * 200, "1"), part("b", "é" * 200, "2"), partitionTypeAttribute=TYPE, **memory("4"))
    )
    assert len(found["validationError"].encode()) <= 256


# Shares


def shared(name: str, **capacity: str) -> dict[str, Any]:
    amounts = {key: {"value": value} for key, value in capacity.items()}
    return device(name, allowMultipleAllocations=True, capacity=amounts)


def test_shares_of_capacity_are_summed() -> None:
    claims = [claim({"device": "a", "shareID": "1", "consumedCapacity": {"bandwidth": "3Gi"}})]
    whole = piece(shared("a", bandwidth="10Gi", lanes="4"), shared("b", bandwidth="10Gi"), device("c"))
    assert pools(whole, claims=claims)[0]["shareableSummary"] == {
        "fullyAvailableDevices": 1,
        "partiallyAvailableDevices": 1,
        "capacity": [
            {"name": "bandwidth", "total": "20Gi", "consumed": "3Gi", "available": "17Gi"},
            {"name": "lanes", "total": "4", "consumed": "0", "available": "4"},
        ],
    }


def test_overconsumed_capacity_leaves_zero() -> None:
    claims = [claim({"device": "a", "consumedCapacity": {"lanes": "9"}})]
    assert pools(piece(shared("a", lanes="4")), claims=claims)[0]["shareableSummary"]["capacity"] == [
        {"name": "lanes", "total": "4", "consumed": "9", "available": "0"}
    ]


def test_pools_without_shareable_devices_have_no_shares() -> None:
    assert "shareableSummary" not in pools(piece(device("a", capacity={"lanes": {"value": "1"}})))[0]


def test_excess_capacity_names_are_an_error_of_the_pool() -> None:
    (found,) = pools(piece(shared("a", **{f"c{i}": "1" for i in range(33)})))
    assert found["validationError"] == (
        f"ShareableSummaryOverCap: pool {DRIVER}/p has 33 shareable capacity keys, exceeding the maximum of 32"
    )
    assert "shareableSummary" not in found


def test_partition_error_takes_precedence() -> None:
    (found,) = pools(piece(*PARTS, shared("x", lanes="1"), partitionTypeAttribute=TYPE))
    assert found["validationError"].startswith("PartitionTypeMissing:")
    assert found["shareableSummary"]["fullyAvailableDevices"] == 1


# The status, and when a request goes


def test_status_pool_limit_is_honored() -> None:
    found = pools(*(piece(pool=f"p{i}") for i in range(3)))
    status = status_of(found, 2, NOW)
    assert (status["poolCount"], len(status["pools"])) == (3, 2)
    assert status["conditions"] == [
        {
            "type": "Complete",
            "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "CalculationComplete",
            "message": "Calculated status for 2 pools",
        }
    ]
    assert len(status_of([{}] * 101, None, NOW)["pools"]) == 100


def test_status_counts_pools_with_errors() -> None:
    found = pools(piece(*PARTS, partitionTypeAttribute=TYPE), piece(pool="q"))
    assert status_of(found, 100, NOW)["conditions"][0]["message"] == "Calculated status for 2 pools (1 incomplete)"


def test_driver_without_pools_is_reported() -> None:
    assert status_of([], 100, NOW)["poolCount"] == 0
    assert "pools" not in status_of([], 100, NOW)


@pytest.mark.parametrize(
    ("status", "hours"),
    [
        (None, 24),
        ({}, 1),
        ({"conditions": [{"type": "Complete", "lastTransitionTime": "2026-01-01T05:00:00Z"}]}, 6),
        ({"conditions": [{"type": "Failed", "lastTransitionTime": "2026-01-01T02:00:00Z"}]}, 3),
        ({"conditions": [{"type": "Other", "lastTransitionTime": "2026-01-01T05:00:00Z"}]}, 1),
    ],
)
def test_expiration_of_a_request(status: Any, hours: int) -> None:
    plain = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status}
    request = codec.from_plain(plain, ResourcePoolStatusRequest)
    end = expiration_of(request)
    assert end is not None
    assert (end - NOW).total_seconds() == hours * 3600


def test_request_without_times_is_kept() -> None:
    assert expiration_of(ResourcePoolStatusRequest()) is None
