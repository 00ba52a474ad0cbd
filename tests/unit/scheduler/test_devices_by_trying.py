"""Devices are found for claims if there are any: what trying all combinations says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kubeloop.scheduler.devices import Allocator, DeviceId, devices_on, with_taints

DRIVER = "gpu.example.com"
NODE = from_plain({"metadata": {"name": "n1"}}, Node)
CLASS = from_plain({"metadata": {"name": "gpu"}}, DeviceClass)


class Wish(NamedTuple):
    """So many devices (0: all), or only to look at them."""

    number: int
    admin: bool


wishes = st.builds(Wish, st.sampled_from((0, 1, 1, 2)), st.booleans())
claims = st.lists(st.tuples(st.lists(wishes, min_size=1, max_size=2), st.booleans()), min_size=1, max_size=2)
colors = st.lists(st.sampled_from(("red", "blue", "")), max_size=4)


def slices_of(devices: list[str], count: int = 1, generation: int = 1) -> ResourceSlice:
    listed = [
        {"name": f"d{number}", "attributes": {"color": {"string": color}} if color else {}}
        for number, color in enumerate(devices)
    ]
    pool = {"name": "p", "generation": generation, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": listed}
    return from_plain({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)


def claim_of(number: int, wanted: list[Wish], alike: bool) -> ResourceClaim:
    requests = [
        {
            "name": f"r{index}",
            "exactly": {
                "deviceClassName": "gpu",
                "allocationMode": "ExactCount" if one.number else "All",
                "count": one.number,
                "adminAccess": one.admin,
            },
        }
        for index, one in enumerate(wanted)
    ]
    rules = [{"matchAttribute": f"{DRIVER}/color"}] if alike else []
    spec = {"devices": {"requests": requests, "constraints": rules}}
    return from_plain({"metadata": {"name": f"c{number}", "namespace": "default"}, "spec": spec}, ResourceClaim)


def ways(wish: Wish, devices: range) -> Iterator[tuple[int, ...]]:
    yield from combinations(devices, wish.number) if wish.number else ([tuple(devices)] if devices else [])


def is_possible(devices: list[str], taken: set[int], wanted: list[tuple[list[Wish], bool]]) -> bool:
    """Whether some choice for all requests gives nothing twice, and each claim what is alike if it has to be."""
    flat = [(index, wish) for index, (wishes_, _) in enumerate(wanted) for wish in wishes_]
    for choice in product(*(list(ways(wish, range(len(devices)))) for _, wish in flat)):
        given: list[int] = list(taken)
        of_claim: list[list[int]] = [[] for _ in wanted]
        for (index, wish), chosen in zip(flat, choice, strict=True):
            of_claim[index] += chosen
            given += () if wish.admin else chosen
        if len(given) != len(set(given)) or any(len(one) != len(set(one)) for one in of_claim):
            continue
        values = [{devices[each] for each in one} for one in of_claim]
        if all(
            not alike or (len(found) <= 1 and "" not in found) for found, (_, alike) in zip(values, wanted, strict=True)
        ):
            return True
    return False


@settings(max_examples=60, deadline=None)
@given(colors, st.sets(st.integers(0, 3), max_size=2), claims)
def test_devices_are_given_if_there_are_enough(
    devices: list[str], taken: set[int], wanted: list[tuple[list[Wish], bool]]
) -> None:
    slices = [slices_of(devices)]
    taken = {one for one in taken if one < len(devices)}
    used = {DeviceId(DRIVER, "p", f"d{one}") for one in taken}
    asked = [claim_of(number, *one) for number, one in enumerate(wanted)]
    found = Allocator(devices_on(slices, NODE), lambda _: CLASS, used, slices).allocate(asked)
    assert (found is not None) == is_possible(devices, taken, wanted)
    for given_, (wishes_, _) in zip(found or (), wanted, strict=found is not None):
        counts = [sum(one.request == f"r{index}" for one in given_) for index in range(len(wishes_))]
        assert counts == [one.number or len(devices) for one in wishes_]


def names(slices: list[ResourceSlice]) -> list[str]:
    return [one.id.device for one in devices_on(slices, NODE).offers]


def test_a_pool_counts_when_all_of_its_newest_generation_is_there() -> None:
    assert names([slices_of(["red"])]) == ["d0"]
    assert names([slices_of(["red"], count=2)]) == []
    assert devices_on([slices_of(["red"], count=2)], NODE).unfinished
    assert names([slices_of(["red"]), slices_of([], generation=2)]) == []


def test_of_a_pool_that_is_being_written_nobody_gets_all() -> None:
    slices = [slices_of(["red"], count=2)]
    other = from_plain({**_plain(slices_of(["blue"])), "metadata": {"name": "other"}}, ResourceSlice)
    whole = [other]
    every = [claim_of(0, [Wish(0, False)], False)]
    assert Allocator(devices_on(whole, NODE), lambda _: CLASS, (), whole).allocate(every) is not None
    assert Allocator(devices_on(slices, NODE), lambda _: CLASS, (), slices).allocate(every) is None


def _plain(one: ResourceSlice) -> dict[str, Any]:
    from kubeloop.api.codec import to_plain

    found: dict[str, Any] = to_plain(one)
    return found


def test_rules_taint_the_devices_that_they_mean() -> None:
    taint = {"key": "sick", "effect": "NoSchedule"}
    one = from_plain({"spec": {"deviceSelector": {"device": "d1"}, "taint": taint}}, DeviceTaintRule)
    every = from_plain({"spec": {"taint": taint}}, DeviceTaintRule)
    other = from_plain({"spec": {"deviceSelector": {"driver": "other"}, "taint": taint}}, DeviceTaintRule)

    def healthy(*rules: DeviceTaintRule) -> list[str]:
        (found,) = with_taints([slices_of(["red", "red"])], rules)
        return [device.name for device in found.spec.devices if not device.taints]

    assert healthy() == ["d0", "d1"]
    assert healthy(one) == ["d0"]
    assert healthy(every) == []
    assert healthy(other) == ["d0", "d1"]
