# SPDX-License-Identifier: Apache-2.0
"""Tests of allocation results, and of allocated devices."""

from __future__ import annotations

from typing import Any

from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from kubeloop.scheduler.dra.allocated import AllocatedDeviceId, AllocatedDevices, AllocatedState, allocated_devices_of
from kubeloop.scheduler.dra.allocation_result import build_allocation_result
from tests.unit.scheduler.dra.device_claims import (
    DRIVER,
    NODE,
    allocator,
    claim_of,
    device_class,
    exactly,
    one_of,
    slice_of,
)


def written(claim: ResourceClaim, *slices: ResourceSlice, kind: DeviceClass | None = None) -> dict[str, Any]:
    kind = kind or device_class()
    found = allocator(slices, kind=kind).allocate(NODE, [claim])
    assert found is not None
    return build_allocation_result(claim, found[0], "n1", lambda _: kind, lambda: "share")


def setting(word: str, **more: Any) -> dict[str, Any]:
    return {"opaque": {"driver": DRIVER, "parameters": {"word": word}}, **more}


def test_result_has_device_usage_details() -> None:
    tolerations = [{"key": "odd", "operator": "Exists"}]
    device = {
        "name": "a", "allowMultipleAllocations": True, "capacity": {"size": {"value": "4"}},
        "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"],
    }  # fmt: skip
    claim = claim_of(exactly(adminAccess=True, tolerations=tolerations, capacity={"requests": {"size": "3"}}))
    (result,) = written(claim, slice_of([device]))["devices"]["results"]
    assert result == {
        "request": "r", "driver": DRIVER, "pool": "p", "device": "a", "adminAccess": True, "tolerations": tolerations,
        "shareID": "share", "consumedCapacity": {"size": "3"},
        "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"],
    }  # fmt: skip
    (plain,) = written(claim_of(exactly()), slice_of([{"name": "b"}]))["devices"]["results"]
    assert plain == {"request": "r", "driver": DRIVER, "pool": "p", "device": "b"}


def test_matching_configuration_is_included() -> None:
    kind = device_class(config=[setting("class")])
    choice = one_of("s", exactly("much", 9), exactly("few", 1))
    config = [setting("all"), setting("r", requests=["r"]), setting("no", requests=["s/much"])]
    config += [setting("few", requests=["s/few"]), setting("both", requests=["r", "s"])]
    claim = claim_of(exactly(), choice, config=config)
    found = written(claim, slice_of([{"name": name} for name in "abc"]), kind=kind)["devices"]["config"]
    told = [(one["source"], one["opaque"]["parameters"]["word"], one.get("requests")) for one in found]
    assert told == [
        ("FromClass", "class", None),
        ("FromClaim", "all", None),
        ("FromClaim", "r", ["r"]),
        ("FromClaim", "few", ["s/few"]),
        ("FromClaim", "both", None),
    ]


def zone(*values: str) -> dict[str, Any]:
    demand = {"key": "zone", "operator": "In", "values": list(values)}
    return {"nodeSelectorTerms": [{"matchExpressions": [demand]}]}


ONLY = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}


def selector(*slices: ResourceSlice) -> Any:
    return written(claim_of(exactly(count=0)), *slices).get("nodeSelector")


def test_node_selector_covers_all_devices() -> None:
    anywhere = slice_of([{"name": "a"}], "a", pool="a", allNodes=True)
    east = slice_of([{"name": "b"}], "b", pool="b", nodeSelector=zone("east"))
    same = slice_of([{"name": "c"}], "c", pool="c", nodeSelector=zone("east"))
    two = slice_of([{"name": "d"}], "d", pool="d", nodeSelector=zone("west", "east"))
    bound = slice_of([{"name": "e", "bindsToNode": True}], "e", pool="e", allNodes=True)
    each = slice_of([{"name": "f", "nodeSelector": zone("east")}], "f", pool="f", perDeviceNodeSelection=True)
    assert selector(anywhere) is None
    assert selector(anywhere, east, same) == zone("east") == selector(each)
    expressions = selector(east, two)["nodeSelectorTerms"][0]["matchExpressions"]
    assert [one["values"] for one in expressions] == [["east"], ["west", "east"]]
    assert selector(slice_of([{"name": "x"}]), anywhere) == ONLY == selector(bound, east)


# Allocated devices.


def holding(uid: str, *results: dict[str, Any]) -> ResourceClaim:
    told = [{"request": "r", "driver": DRIVER, "pool": "p", **one} for one in results]
    status = {"allocation": {"devices": {"results": told}}} if results else {}
    return from_plain({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "status": status}, ResourceClaim)


def part(device: str, size: str = "") -> dict[str, Any]:
    return {"device": device, "shareID": "x", "consumedCapacity": {"size": size}} if size else {"device": device}


def plainly(use: AllocatedState) -> tuple[dict[str, int], dict[str, int]]:
    whole = {one.device: number for one, number in use.devices.items()}
    shares = {id.device: amounts["size"].value() for id, amounts in use.consumed_capacity.items()}
    return whole, shares


def test_pending_allocation_counts_until_observed() -> None:
    use, claim = AllocatedDevices(), holding("c", part("a"), part("b", "3"))
    use.on_add(holding("c"))
    use.add_pending("c", allocated_devices_of(claim))
    assert use.is_pending("c")
    assert plainly(use.state) == ({"a": 1}, {"b": 3})
    use.on_update(holding("c"), holding("c"))
    assert use.is_pending("c")
    use.on_update(holding("c"), claim)
    assert not use.is_pending("c")
    assert plainly(use.state) == ({"a": 1}, {"b": 3})
    use.on_delete(claim)
    assert use.state == AllocatedState()


def test_pending_allocation_moves_to_the_created_claim() -> None:
    use, claim = AllocatedDevices(), holding("real", part("a"))
    use.add_pending("memory", allocated_devices_of(claim))
    use.move_pending("memory", "real")
    assert (use.is_pending("memory"), use.is_pending("real")) == (False, True)
    use.on_add(claim)
    use.remove_pending("real")
    assert plainly(use.state) == ({"a": 1}, {})
    late = AllocatedDevices()
    late.add_pending("memory", allocated_devices_of(claim))
    late.on_add(claim)  # the cache may be quicker than the answer
    late.move_pending("memory", "real")
    assert plainly(late.state) == ({"a": 1}, {})


def test_admin_access_devices_are_not_in_use() -> None:
    assert allocated_devices_of(holding("c", {"device": "a", "adminAccess": True})) == ()
    assert [one.id for one in allocated_devices_of(holding("c", part("a")))] == [AllocatedDeviceId(DRIVER, "p", "a")]


_STEPS = st.sampled_from(("told", "promised", "gone"))
_PARTS = st.lists(st.builds(part, st.sampled_from("ab"), st.sampled_from(("", "1", "2"))), max_size=2)


@settings(max_examples=60, deadline=None)
@for_all(
    st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(("told", "promised", "gone")), _PARTS), max_size=12)
)
def test_total_equals_observed_and_pending(steps: list[tuple[str, str, list[dict[str, Any]]]]) -> None:
    use, told, promised = AllocatedDevices(), dict[str, Any](), dict[str, Any]()
    for uid, step, parts in steps:
        claim = holding(uid, *parts)
        if step == "promised":
            if uid not in told:
                use.add_pending(uid, allocated_devices_of(claim))
                promised[uid] = claim
        elif step == "told":
            use.on_update(told[uid], claim) if uid in told else use.on_add(claim)
            told[uid] = claim
            if parts:
                promised.pop(uid, None)
        else:
            use.on_delete(claim)
            told.pop(uid, None)
            promised.pop(uid, None)
    expected = AllocatedState()
    for claim in (*told.values(), *promised.values()):
        expected.add(allocated_devices_of(claim))
    assert plainly(use.state) == plainly(expected)
