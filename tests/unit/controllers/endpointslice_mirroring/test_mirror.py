# SPDX-License-Identifier: Apache-2.0
"""Tests of slices that mirror an Endpoints object."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.controllers.endpointslice_mirroring.mirror import MirrorPlan, mirror_endpoints, new_slice, plan_mirror

META = ObjectMeta(name="s", namespace="d", uid="u", labels={"l": "v"}, annotations={"a": "b"})


def endpoints(*ips: str, port: int = 80) -> Endpoints:
    addresses = tuple(EndpointAddress(ip=one) for one in ips)
    ports = (EndpointPort(name="p", port=port, protocol="TCP"),)
    return Endpoints(metadata=META, subsets=(EndpointSubset(addresses=addresses, ports=ports),))


def plan(wanted: Endpoints, existing: list[EndpointSlice]) -> MirrorPlan:
    return plan_mirror(wanted, existing, mirror_endpoints(wanted, 1000).groups)


def slices_of(wanted: Endpoints) -> list[EndpointSlice]:
    return [new_slice(wanted, draft) for draft in plan(wanted, []).create]


def test_invalid_addresses_are_counted_and_skipped() -> None:
    found = mirror_endpoints(endpoints("10.0.0.1", "nonsense", "fd00::1"), 1000)
    assert (found.invalid, found.skipped) == (1, 1)
    assert {place[0]: len(group) for place, group in found.groups.items()} == {"IPv4": 1, "IPv6": 1}


def test_max_endpoints_is_enforced() -> None:
    found = mirror_endpoints(endpoints("10.0.0.1", "10.0.0.2", "10.0.0.3"), 2)
    assert (found.invalid, found.skipped) == (0, 1)


def test_unchanged_mirror_is_kept() -> None:
    wanted = endpoints("10.0.0.1", "fd00::1")
    found = plan(wanted, slices_of(wanted))
    assert (found.create, found.update, found.delete) == ([], [], [])


def test_changes_are_counted() -> None:
    found = plan(endpoints("10.0.0.1", "10.0.0.3"), slices_of(endpoints("10.0.0.1", "10.0.0.2")))
    assert (found.added, found.removed, found.updated, len(found.update)) == (1, 1, 0, 1)


def test_obsolete_slice_is_reused() -> None:
    found = plan(endpoints("10.0.0.1", port=81), slices_of(endpoints("10.0.0.1")))
    assert (found.create, found.delete, len(found.update)) == ([], [], 1)
    assert found.update[0].base is not None


def test_slice_of_the_other_family_is_not_reused() -> None:
    found = plan(endpoints("10.0.0.1"), slices_of(endpoints("fd00::1")))
    assert (len(found.create), len(found.delete), found.update) == (1, 1, [])
