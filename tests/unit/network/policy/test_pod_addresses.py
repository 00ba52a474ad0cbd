# SPDX-License-Identifier: Apache-2.0
"""Owners of pod addresses."""

from __future__ import annotations

from ipaddress import ip_address

from kubeloop.api.generated.core_v1 import Pod, PodIP, PodSpec, PodStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.network.policy.pod_addresses import AddressAssignment, PodAddresses
from kubeloop.runtime.objects.keys import ObjectKey

ONE = ip_address("10.0.0.1")


def pod(
    name: str, address: str = "", *, created: str = "1", uid: str = "", phase: str = "Running", **spec: bool
) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="x", uid=uid or name, creation_timestamp=Time(f"2026-01-0{created}T00:00:00Z")
        ),
        spec=PodSpec(node_name="n1", **spec),
        status=PodStatus(phase=phase, pod_ips=(PodIP(ip=address),) if address else ()),
    )


def shown(book: PodAddresses) -> dict[str, list[str] | None]:
    changes = book.take_changes()
    return {key.name: None if one is None else sorted(map(str, one.addresses)) for key, one in changes}


def test_addresses_of_the_status_and_deletion() -> None:
    book = PodAddresses("n1")
    book.set_pod(pod("a", "10.0.0.1"))
    assert shown(book) == {"a": ["10.0.0.1"]}
    book.set_pod(pod("a", "10.0.0.1"))
    assert shown(book) == {}
    book.remove_pod(pod("a", "10.0.0.1"))
    assert shown(book) == {"a": None}


def test_pods_of_the_host_network_and_ended_pods_own_nothing() -> None:
    book = PodAddresses("n1")
    book.set_pod(pod("host", "10.0.0.1", host_network=True))
    book.set_pod(pod("ended", "10.0.0.2", phase="Succeeded"))
    assert shown(book) == {"host": [], "ended": []}


def test_the_youngest_pod_owns_a_reused_address() -> None:
    book = PodAddresses("n1")
    book.set_pod(pod("old", "10.0.0.1", created="1"))
    book.set_pod(pod("new", "10.0.0.1", created="2"))
    assert shown(book) == {"old": [], "new": ["10.0.0.1"]}
    book.remove_pod(pod("new", "10.0.0.1", created="2"))
    assert shown(book) == {"old": ["10.0.0.1"], "new": None}


def test_reported_address_belongs_to_its_pod_before_the_status_shows_it() -> None:
    book = PodAddresses("n1")
    book.set_pod(pod("old", "10.0.0.1", created="2"))
    book.set_pod(pod("new", created="1"))
    shown(book)
    assignment = AddressAssignment(ObjectKey("x", "new"), "new")
    book.assign(assignment, [ONE])
    assert not book.is_shown(assignment, [ONE])
    assert shown(book) == {"old": [], "new": ["10.0.0.1"]}
    assert book.is_shown(assignment, [ONE])
    book.release([ONE])
    assert shown(book) == {"old": ["10.0.0.1"], "new": []}


def test_report_that_comes_before_its_pod_waits_for_it() -> None:
    book = PodAddresses("n1")
    assignment = AddressAssignment(ObjectKey("x", "a"), "second")
    book.set_pod(pod("a", uid="first"))
    book.assign(assignment, [ONE])
    assert shown(book) == {"a": []}  # an older pod of that name
    assert not book.is_shown(assignment, [ONE])
    book.remove_pod(pod("a", uid="first"))
    book.set_pod(pod("a", uid="second"))
    assert shown(book) == {"a": ["10.0.0.1"]}
    assert book.is_shown(assignment, [ONE])


def test_deleted_pod_gives_its_reported_address_back() -> None:
    book = PodAddresses("n1")
    book.set_pod(pod("a", uid="u"))
    book.assign(AddressAssignment(ObjectKey("x", "a"), "u"), [ONE])
    book.remove_pod(pod("a", uid="u"))
    book.set_pod(pod("a", uid="v"))
    assert shown(book) == {"a": []}
