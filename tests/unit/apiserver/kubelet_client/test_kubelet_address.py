# SPDX-License-Identifier: Apache-2.0
"""Tests of kubelet addresses and requests, as pure functions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Node, NodeAddress, NodeStatus
from kubeloop.api.kubelet_requests import PodLogOptions, PodStreamRequest
from kubeloop.apiserver.kubelet_client.dialer import log_error
from kubeloop.apiserver.kubelet_client.kubelet_address import ADDRESS_TYPES, address_of, log_target, stream_target
from kubeloop.cli.main import parse_command
from tests.unit.apiserver.kubelet_client.fake_kubelet import POD, node_at


def node_with(*addresses: tuple[str, str]) -> Node:
    return Node(status=NodeStatus(addresses=tuple(NodeAddress(type=kind, address=one) for kind, one in addresses)))


def test_first_address_of_the_preferred_type_is_dialed() -> None:
    node = node_with(("Hostname", "n1"), ("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"))
    assert str(address_of(node, ADDRESS_TYPES)) == "10.0.0.1:10250"
    assert str(address_of(node, ("ExternalDNS", "Hostname"))) == "n1:10250"


def test_reported_kubelet_port_is_dialed() -> None:
    assert str(address_of(node_at(4711, "fd00::1"), ADDRESS_TYPES)) == "[fd00::1]:4711"


def test_node_without_preferred_addresses_lists_its_addresses() -> None:
    with pytest.raises(ApiError) as refused:
        address_of(node_with(("Hostname", "n1")), ("InternalIP",))
    assert refused.value.message == "no preferred addresses found; known addresses: [{Hostname n1}]"
    assert refused.value.code == 500


def test_log_options_are_passed_on() -> None:
    options = PodLogOptions(follow=True, tail_lines=0, since=datetime(2026, 1, 2, tzinfo=UTC), stream="Stdout")
    assert log_target(POD, "app", options) == (
        "/containerLogs/default/web/app?follow=true&sinceTime=2026-01-02T00%3A00%3A00Z&stream=Stdout&tailLines=0"
    )
    assert log_target(POD, "app", PodLogOptions()) == "/containerLogs/default/web/app?stream=All"


def test_streams_are_requested_by_the_kubelets_names() -> None:
    wanted = PodStreamRequest("exec", ("sh", "-c", "a & b"), stdin=True, stdout=True, tty=True)
    assert stream_target(POD, "app", wanted) == (
        "/exec/default/web/app?input=1&output=1&tty=1&command=sh&command=-c&command=a+%26+b"
    )
    assert stream_target(POD, "", PodStreamRequest("portforward")) == "/portForward/default/web"


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (400, "BadRequest", "said"),
        (500, "InternalError", "Internal error occurred: said"),
        (404, "NotFound", "the server could not find the requested resource ( pods/log web)"),
        (403, "Forbidden", "said ( pods/log web)"),
        (401, "Unauthorized", "the server has asked for the client to provide credentials ( pods/log web)"),
    ],
)
def test_kubelet_rejection_is_returned_with_upstreams_message(status: int, reason: str, message: str) -> None:
    made = log_error(status, b"said", "web")
    assert (made.code, made.reason, made.message) == (status, reason, message)


def test_flag_default_is_the_dialers() -> None:
    assert parse_command(["apiserver"]).kubelet_preferred_address_types == ADDRESS_TYPES
