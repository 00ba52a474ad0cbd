# SPDX-License-Identifier: Apache-2.0
"""Endpoints go into slices so that few of them change."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import ObjectReference, Service
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointPort, EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.controllers.endpointslice.desired_slices import DesiredEndpoints, Group
from kubeloop.controllers.endpointslice.slice_plan import SliceDraft, SlicePlan, SliceTemplate, plan_slices
from kubeloop.controllers.shared.endpoints.slices import Ports, key_of_endpoint

SERVICE = Service(metadata=ObjectMeta(name="s", namespace="d", uid="service"))
OWNER = OwnerReference(kind="Service", api_version="v1", name="s", uid="service", controller=True)
LABELS = {"l": "v"}
HTTP: Ports = (EndpointPort(name="http", port=80, protocol="TCP"),)
DNS: Ports = (EndpointPort(name="dns", port=53, protocol="UDP"),)


def endpoint(number: int, zone: str | None = None) -> Endpoint:
    target = ObjectReference(kind="Pod", namespace="d", name=f"p{number}")
    return Endpoint(addresses=(f"10.0.{number // 250}.{number % 250}",), target_ref=target, zone=zone)


def a_slice(name: str, numbers: Sequence[int], ports: Ports = HTTP, owner: OwnerReference = OWNER) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(name=name, labels=LABELS, owner_references=(owner,)),
        address_type="IPv4",
        endpoints=tuple(map(endpoint, numbers)),
        ports=ports,
    )


def group(numbers: Sequence[int], zone: str | None = None) -> Group:
    found = [endpoint(number, zone) for number in numbers]
    return {key_of_endpoint(one): one for one in found}


def plan(
    existing: Sequence[EndpointSlice], groups: dict[Ports, Group], capacity: int = 5, labels: dict[str, str] = LABELS
) -> SlicePlan:
    return plan_slices(SERVICE, existing, DesiredEndpoints(groups), SliceTemplate("IPv4", labels, capacity))


def sizes(drafts: Sequence[SliceDraft]) -> list[int]:
    return [len(one.endpoints) for one in drafts]


def bases(drafts: Sequence[SliceDraft]) -> list[str]:
    return sorted(one.base.metadata.name for one in drafts if one.base is not None)


def test_new_slices_are_filled() -> None:
    found = plan([], {HTTP: group(range(12))})
    assert sizes(found.create) == [5, 5, 2]
    assert (found.update, found.delete, found.added, found.removed) == ([], [], 12, 0)


def test_unchanged_slices_are_kept() -> None:
    found = plan([a_slice("a", range(3)), a_slice("b", range(3, 6))], {HTTP: group(range(6))})
    assert bases(found.unchanged) == ["a", "b"]
    assert (found.create, found.update, found.delete) == ([], [], [])


def test_changed_slice_is_filled_first() -> None:
    existing = [a_slice("a", (0, 1)), a_slice("b", (2, 3))]
    found = plan(existing, {HTTP: group((0, 2, 3, 4, 5))})
    assert (bases(found.update), bases(found.unchanged)) == (["a"], ["b"])
    assert sizes(found.update) == [3]


def test_fullest_changed_slice_is_filled_first() -> None:
    existing = [a_slice("a", (0, 1)), a_slice("b", (2, 3, 4, 5))]
    found = plan(existing, {HTTP: group((0, 2, 3, 4, 6, 7, 8))})
    by_name = {one.base.metadata.name: len(one.endpoints) for one in found.update if one.base is not None}
    assert by_name == {"a": 2, "b": 5}


def test_remaining_endpoints_go_to_the_best_fitting_slice() -> None:
    existing = [a_slice("a", (0,)), a_slice("b", (1, 2, 3)), a_slice("c", (4, 5, 6, 7))]
    found = plan(existing, {HTTP: group(range(10))})
    assert (bases(found.update), sizes(found.update)) == (["b"], [5])
    assert found.create == []


def test_new_slice_is_created_if_none_has_room_for_the_rest() -> None:
    existing = [a_slice("a", (0, 1, 2)), a_slice("b", (3, 4, 5))]
    found = plan(existing, {HTTP: group(range(9))})
    assert (sizes(found.create), found.update) == ([3], [])


def test_emptied_slice_is_deleted_if_others_remain() -> None:
    existing = [a_slice("a", (0,)), a_slice("b", (1, 2))]
    found = plan(existing, {HTTP: group((1, 2))})
    assert [one.metadata.name for one in found.delete] == ["a"]
    assert (bases(found.unchanged), found.removed) == (["b"], 1)


def test_last_slice_becomes_the_placeholder() -> None:
    found = plan([a_slice("a", (0,))], {})
    (draft,) = found.update
    assert (draft.base is not None, draft.endpoints, draft.ports) == (True, [], ())
    assert (found.create, found.delete) == ([], [])


def test_placeholder_slice_is_kept() -> None:
    found = plan([a_slice("a", (), ())], {})
    assert (bases(found.unchanged), found.create, found.update, found.delete) == (["a"], [], [], [])


def test_changed_endpoint_is_updated_in_place() -> None:
    found = plan([a_slice("a", (0, 1))], {HTTP: {**group((0,), zone="z"), **group((1,))}})
    (draft,) = found.update
    assert [one.zone for one in draft.endpoints] == ["z", None]
    assert (found.added, found.removed) == (0, 0)


def test_duplicate_endpoint_is_kept_once() -> None:
    found = plan([a_slice("a", (0, 1)), a_slice("b", (1, 2))], {HTTP: group((0, 1, 2))})
    assert (bases(found.unchanged), bases(found.update)) == (["a"], ["b"])
    assert sizes(found.update) == [1]


def test_other_ports_have_separate_slices() -> None:
    found = plan([], {HTTP: group((0,)), DNS: group((1, 2))})
    assert [(one.ports, len(one.endpoints)) for one in found.create] == [(HTTP, 1), (DNS, 2)]


def test_slice_with_unused_ports_is_reused_for_new_ports() -> None:
    found = plan([a_slice("a", (0, 1))], {DNS: group((0, 1))})
    (draft,) = found.update
    assert (bases([draft]), draft.ports, len(draft.endpoints)) == (["a"], DNS, 2)
    assert (found.create, found.delete) == ([], [])


def test_slice_of_another_service_is_deleted_and_not_reused() -> None:
    other = OwnerReference(kind="Service", api_version="v1", name="s", uid="former", controller=True)
    found = plan([a_slice("a", (0,), owner=other)], {HTTP: group((0,))})
    assert [one.metadata.name for one in found.delete] == ["a"]
    assert sizes(found.create) == [1]
    found = plan([a_slice("a", (), (), owner=other)], {})
    assert ([one.metadata.name for one in found.delete], sizes(found.create)) == (["a"], [0])


def test_changed_service_labels_update_every_slice() -> None:
    found = plan([a_slice("a", range(5)), a_slice("b", (5,))], {HTTP: group(range(6))}, labels={"l": "w"})
    assert bases(found.update) == ["a", "b"]
    assert all(one.labels == {"l": "w"} for one in found.update)


numbers = st.integers(0, 30)


@given(st.lists(st.lists(numbers, max_size=4), max_size=6), st.sets(numbers))
def test_each_endpoint_is_in_one_slice_and_no_slice_is_overfull(existing: list[list[int]], wanted: set[int]) -> None:
    slices = [a_slice(f"s{index}", sorted(set(one))) for index, one in enumerate(existing)]
    found = plan(slices, {HTTP: group(sorted(wanted))} if wanted else {}, capacity=4)
    listed = [key_of_endpoint(one).name for draft in found.drafts for one in draft.endpoints]
    assert sorted(listed) == sorted(f"p{number}" for number in wanted)
    assert all(len(one.endpoints) <= 4 for one in found.drafts)
    assert found.drafts
    names = [one.metadata.name for one in found.delete] + bases(found.drafts)
    assert sorted(names) == sorted(one.metadata.name for one in slices)
    assert not (found.create and found.delete)  # one of the two would have been a change
    assert all(not one.is_changed for one in found.unchanged)


@given(st.lists(st.lists(numbers, max_size=4), max_size=6), st.sets(numbers))
def test_reconciliation_is_idempotent(existing: list[list[int]], wanted: set[int]) -> None:
    slices = [a_slice(f"s{index}", sorted(set(one))) for index, one in enumerate(existing)]
    groups = {HTTP: group(sorted(wanted))} if wanted else {}
    first = plan(slices, groups, capacity=4)
    made = [
        EndpointSlice(
            metadata=ObjectMeta(name=f"m{index}", labels=dict(one.labels), owner_references=(OWNER,)),
            address_type="IPv4",
            endpoints=tuple(one.endpoints),
            ports=one.ports,
        )
        for index, one in enumerate(first.drafts)
    ]
    second = plan(made, groups, capacity=4)
    assert (second.create, second.delete, [one for one in second.update if one.is_changed]) == ([], [], [])
