# SPDX-License-Identifier: Apache-2.0
"""Ports and subsets are listed in upstream's order."""

from __future__ import annotations

from kubeloop.api.generated import core_v1, discovery_v1
from kubeloop.controllers.shared.endpoints.go_order import (
    fnv128a,
    port_sort_key,
    slice_port_sort_key,
    subset_sort_key,
)


def test_hash_is_the_published_one() -> None:
    assert f"{fnv128a(b''):032x}" == "6c62272e07bb014262b821756295c58d"
    assert f"{fnv128a(b'a'):032x}" == "d228cb696f1a8caf78912b704e4a8964"


def core(name: str, port: int, protocol: str = "TCP", app: str | None = None) -> core_v1.EndpointPort:
    return core_v1.EndpointPort(name=name, port=port, protocol=protocol, app_protocol=app)


def discovery(name: str, port: int, protocol: str = "TCP", app: str | None = None) -> discovery_v1.EndpointPort:
    return discovery_v1.EndpointPort(name=name, port=port, protocol=protocol, app_protocol=app)


def test_port_order_matches_a_real_controller() -> None:
    udp = ("udp", 5353, "UDP", "example.com/x")
    assert port_sort_key(core(*udp)) < port_sort_key(core("http", 8080))
    assert slice_port_sort_key(discovery("http", 8080)) < slice_port_sort_key(discovery(*udp))
    assert slice_port_sort_key(discovery(*udp)) < slice_port_sort_key(discovery("http", 9090))


def test_different_subsets_have_different_hashes() -> None:
    address = core_v1.EndpointAddress(ip="10.0.0.1", target_ref=core_v1.ObjectReference(kind="Pod", name="p"))
    one = core_v1.EndpointSubset(addresses=(address,), ports=(core("a", 1),))
    other = core_v1.EndpointSubset(not_ready_addresses=(address,), ports=(core("a", 1),))
    assert subset_sort_key(one) != subset_sort_key(other)
    assert subset_sort_key(one) == subset_sort_key(one)
