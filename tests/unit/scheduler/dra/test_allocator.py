# SPDX-License-Identifier: Apache-2.0
"""Tests of the device allocator and its errors."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.resource_v1 import DeviceClass
from kubeloop.api.scalars.quantity import Quantity
from kubeloop.scheduler.dra.allocated import AllocatedDevice, AllocatedDeviceId, AllocatedState
from kubeloop.scheduler.dra.allocator import AllocationError, AllocationTimeout, InvalidPoolsError
from tests.unit.scheduler.dra.device_claims import (
    DRIVER,
    NODE,
    allocator,
    cel,
    claim_of,
    exactly,
    given,
    in_use,
    one_of,
    slice_of,
)

TWO = slice_of([{"name": "a"}, {"name": "b"}])


def device(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def colored(name: str, color: str, **more: Any) -> dict[str, Any]:
    return device(name, attributes={"color": {"string": color}}, **more)


# Pools.


def test_pool_is_complete_with_its_latest_generation() -> None:
    half = slice_of([device("a")], count=2)
    assert given([half], claim_of(exactly())) is None
    assert given([half, slice_of([device("b")], "t", count=2, nodeName="n2")], claim_of(exactly())) == [["a"]]
    assert given([slice_of([device("a")]), slice_of([], "t", generation=2)], claim_of(exactly())) is None


def test_allocation_mode_all_fails_for_an_incomplete_pool() -> None:
    with pytest.raises(AllocationError) as found:
        given([slice_of([device("a")], count=2)], claim_of(exactly(count=0)))
    told = f"asks for all devices, but resource pool {DRIVER}/p is currently being updated"
    assert str(found.value) == f"claim default/c, request r: {told}"


@pytest.mark.parametrize(
    "slices",
    [
        [slice_of([device("a")], "s", count=2), slice_of([device("a")], "t", count=2)],
        [slice_of([device("a", consumesCounters=[{"counterSet": "none", "counters": {"x": {"value": "1"}}}])])],
        [
            slice_of([], "s", count=3, sharedCounters=[{"name": "x", "counters": {"y": {"value": "1"}}}]),
            slice_of([], "t", count=3, sharedCounters=[{"name": "x", "counters": {"y": {"value": "1"}}}]),
            slice_of([device("a")], "u", count=3),
        ],
    ],
)
def test_invalid_pool_is_ignored(slices: list[Any]) -> None:
    with pytest.raises(InvalidPoolsError):
        given(slices, claim_of(exactly()))
    other = slice_of([device("other")], "z", pool="q")
    assert given([*slices, other], claim_of(exactly())) == [["other"]]


def test_pools_are_used_by_name_and_those_with_binding_conditions_last() -> None:
    slow = slice_of([device("slow", bindingConditions=["ready"], bindingFailureConditions=["no"])], "s", pool="a")
    late, early = slice_of([device("late")], "t", pool="c"), slice_of([device("early")], "u", pool="b")
    assert given([slow, late, early], claim_of(exactly(count=3))) == [["early", "late", "slow"]]


def test_devices_may_have_their_own_nodes() -> None:
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}]}
    mixed = [device("a", nodeName="n2"), device("b", nodeSelector=zone), device("c", allNodes=True), device("d")]
    everything = claim_of(exactly(count=0))
    assert given([slice_of(mixed, perDeviceNodeSelection=True)], everything) == [["b", "c"]]


# Requests.


def test_first_satisfiable_alternative_is_used() -> None:
    slices = [slice_of([colored("a", "red"), colored("b", "blue"), colored("c", "blue")])]
    blue = {"selectors": cel(f'device.attributes["{DRIVER}"].color == "blue"')}
    request = one_of("r", exactly("three", 3, **blue), exactly("two", 2, **blue), exactly("any", 1))
    found = allocator(slices).allocate(NODE, [claim_of(request)])
    assert found is not None
    assert [(one.request, one.device_offer.id.device) for one in found[0]] == [("r/two", "b"), ("r/two", "c")]
    assert given(slices, claim_of(request), use=in_use("b")) == [["a"]]


def test_alternative_is_backtracked_for_a_later_request() -> None:
    request = one_of("r", exactly("both", 2), exactly("one", 1))
    assert given([TWO], claim_of(request, exactly("s"))) == [["a", "b"]]
    assert given([TWO], claim_of(request), claim_of(exactly(), name="d")) == [["a"], ["b"]]


def test_claim_is_limited_to_32_devices() -> None:
    many = [slice_of([device(f"d{number}") for number in range(40)])]
    found = given(many, claim_of(exactly(count=32)))
    assert found is not None
    assert len(found[0]) == 32
    with pytest.raises(AllocationError) as error:
        given(many, claim_of(exactly(count=0)))
    limit = "number of requested devices 40 exceeds the claim limit of 32"
    assert str(error.value) == f"claim default/c: {limit}"
    request = one_of("r", exactly("most", 30), exactly("few", 2))
    found = given(many, claim_of(request, exactly("s", 4)))
    assert found is not None
    assert len(found[0]) == 6


def test_admin_access_consumes_nothing() -> None:
    look = exactly(adminAccess=True)
    assert given([TWO], claim_of(exactly(count=0)), use=in_use("a")) is None
    assert given([TWO], claim_of(exactly(count=0, adminAccess=True)), use=in_use("a")) == [["a", "b"]]
    assert given([TWO], claim_of(exactly(count=2)), claim_of(look, name="d")) == [["a", "b"], ["a"]]
    assert given([TWO], claim_of(look, exactly("s", adminAccess=True))) == [["a", "b"]]


@pytest.mark.parametrize(
    ("toleration", "found"),
    [
        ({}, None),
        ({"key": "sick", "operator": "Exists"}, [["a"]]),
        ({"operator": "Exists", "effect": "NoExecute"}, None),
        ({"key": "sick", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, [["a"]]),
        ({"key": "sick", "value": "no"}, None),
        ({"key": "sick", "operator": "Other", "value": "yes"}, None),
    ],
)
def test_tainted_devices_require_tolerations(toleration: dict[str, Any], found: list[list[str]] | None) -> None:
    taints = [{"key": "sick", "value": "yes", "effect": "NoSchedule"}, {"key": "odd", "effect": "None"}]
    tolerations = [toleration] if toleration else []
    slices = [slice_of([device("a", taints=taints)])]
    assert given(slices, claim_of(exactly(tolerations=tolerations))) == found
    with_another = [slice_of([device("a", taints=taints), device("b")])]
    every = claim_of(exactly(count=0, tolerations=tolerations))
    assert given(with_another, every) == (found and [["a", "b"]])


def test_match_and_distinct_constraints_are_honored() -> None:
    slices = [slice_of([colored("a", "red"), colored("b", "blue"), colored("c", "blue"), device("d")])]
    name = f"{DRIVER}/color"
    assert given(slices, claim_of(exactly(count=2), constraints=[{"matchAttribute": name}])) == [["b", "c"]]
    assert given(slices, claim_of(exactly(count=2), constraints=[{"distinctAttribute": name}])) == [["a", "b"]]
    assert given(slices, claim_of(exactly(count=3), constraints=[{"distinctAttribute": name}])) is None
    only = [{"matchAttribute": name, "requests": ["r"]}]
    assert given(slices, claim_of(exactly(count=2), exactly("s"), constraints=only)) == [["b", "c", "a"]]
    with pytest.raises(AllocationError) as error:
        given(slices, claim_of(exactly(count=0), constraints=[{"matchAttribute": name}]))
    told = f"cannot add device {DRIVER}/p/b because a claim constraint would not be satisfied"
    assert str(error.value) == f"claim default/c, request r: {told}"


def test_number_does_not_equal_boolean() -> None:
    slices = [
        slice_of([device("a", attributes={"x": {"int": 1}}), device("b", attributes={"x": {"bool": True}})]),
    ]
    alike = [{"matchAttribute": f"{DRIVER}/x"}]
    assert given(slices, claim_of(exactly(count=2), constraints=alike)) is None


# Counters and capacity.


def test_counters_are_shared_by_the_devices_of_a_pool() -> None:
    def takes(number: int) -> list[dict[str, Any]]:
        return [{"counterSet": "gpu", "counters": {"memory": {"value": f"{number}Gi"}}}]

    counters = [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]
    parts = [device("whole", consumesCounters=takes(40)), device("half", consumesCounters=takes(20))]
    parts += [device("other", consumesCounters=takes(20)), device("free")]
    slices = [slice_of(parts, count=2), slice_of([], "t", count=2, sharedCounters=counters)]
    assert given(slices, claim_of(exactly(count=3))) == [["half", "other", "free"]]
    assert given(slices, claim_of(exactly()), use=in_use("half")) == [["other"]]
    assert given(slices, claim_of(exactly()), use=in_use("whole")) == [["free"]]


def shared(name: str, size: str, **more: Any) -> dict[str, Any]:
    return device(name, allowMultipleAllocations=True, capacity={"size": {"value": size}}, **more)


def of_size(size: str, name: str = "r", count: int = 1) -> dict[str, Any]:
    return exactly(name, count, capacity={"requests": {"size": size}})


def partly(name: str, size: int) -> AllocatedState:
    found = AllocatedState()
    found.add([AllocatedDevice(AllocatedDeviceId(DRIVER, "p", name), {"size": Quantity.of(size)})])
    return found


def test_device_is_shared_up_to_its_capacity() -> None:
    slices = [slice_of([shared("a", "10"), shared("b", "4")])]
    assert given(slices, claim_of(of_size("6")), claim_of(of_size("4"), name="d")) == [["a"], ["a"]]
    assert given(slices, claim_of(of_size("6")), claim_of(of_size("5"), name="d")) is None
    assert given(slices, claim_of(of_size("6"), of_size("3", "s"), of_size("3", "t"))) == [["a", "a", "b"]]
    assert given(slices, claim_of(of_size("3")), use=partly("a", 8)) == [["b"]]
    assert given(slices, claim_of(of_size("3", count=2))) == [["a", "b"]]  # of one device no request has two shares
    assert given(slices, claim_of(exactly())) == [["a"]]
    assert given(slices, claim_of(exactly()), use=partly("a", 1)) == [["b"]]  # no request means all of it


def test_allocation_mode_all_requires_sufficient_devices() -> None:
    slices = [slice_of([shared("a", "10"), shared("b", "4"), shared("c", "10")])]
    every = claim_of(of_size("5", count=0))
    assert given(slices, every) == [["a", "c"]]
    assert given(slices, every, use=partly("c", 6)) is None


def test_shares_of_one_device_consume_its_counters_once() -> None:
    takes = [{"counterSet": "gpu", "counters": {"slots": {"value": "2"}}}]
    counters = [{"name": "gpu", "counters": {"slots": {"value": "3"}}}]
    parts = [shared("a", "10", consumesCounters=takes), shared("b", "10", consumesCounters=takes)]
    slices = [slice_of(parts, count=2), slice_of([], "t", count=2, sharedCounters=counters)]
    assert given(slices, claim_of(of_size("6"), of_size("4", "s"))) == [["a", "a"]]
    assert given(slices, claim_of(of_size("6"), of_size("5", "s"))) is None
    assert given(slices, claim_of(of_size("1")), use=partly("b", 10)) is None


# Errors.


def test_expressions_see_versions_quantities_and_empty_domains() -> None:
    attributes = {"driver": {"version": "1.10.0"}, "other.example.com/size": {"int": 3}}
    one = device("a", attributes=attributes, capacity={"memory": {"value": "40Gi"}})
    for expression in (
        f'device.attributes["{DRIVER}"].driver.isGreaterThan(semver("1.9.0"))',
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) == 0',
        'device.attributes["other.example.com"].size == 3 && !device.allowMultipleAllocations',
        '!("x" in device.attributes["nowhere.example.com"])',
        '!("nowhere.example.com" in device.attributes)',
        'device.attributes["nowhere.example.com"].?x.orValue(7) == 7',
    ):
        assert given([slice_of([one])], claim_of(exactly(selectors=cel(expression)))) == [["a"]], expression


def test_failing_expression_ends_the_attempt() -> None:
    kind = from_plain({"metadata": {"name": "gpu"}, "spec": {"selectors": cel("device.driver.foo(")}}, DeviceClass)
    with pytest.raises(AllocationError, match=r"^class gpu: selector #0: CEL compile error: "):
        given([TWO], claim_of(exactly()), kind=kind)
    with pytest.raises(AllocationError) as found:
        given([TWO], claim_of(exactly(selectors=cel(f'device.attributes["{DRIVER}"].color == "red"'))))
    assert str(found.value) == (
        f"claim default/c: selector #0 on device {DRIVER}/p/a: CEL runtime error: no such key: color. consider using "
        "CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"
    )


def test_allocated_devices_are_not_evaluated() -> None:
    slices = [slice_of([device("a"), colored("b", "red")])]
    red = claim_of(exactly(selectors=cel(f'device.attributes["{DRIVER}"].color == "red"')))
    assert given(slices, red, use=in_use("a")) == [["b"]]


def test_search_timeout_is_enforced() -> None:
    moments = iter(range(1000))
    with pytest.raises(AllocationTimeout):
        allocator([TWO]).allocate(NODE, [claim_of(exactly(count=2))], lambda: next(moments) > 1)
