"""Where kubelets are, and what they are asked: pure."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Node, NodeAddress, NodeStatus
from kubeloop.api.node_calls import PodLogOptions, PodStreamRequest
from kubeloop.apiserver.kubelet_client.dialer import is_proxyable_address, log_error
from kubeloop.apiserver.kubelet_client.kubelet_address import ADDRESS_TYPES, address_of, log_target, stream_target
from kubeloop.cli.apiserver.flags import add_command
from tests.unit.apiserver.kubelets.kubelet_world import POD, node_at


def node_with(*addresses: tuple[str, str]) -> Node:
    return Node(status=NodeStatus(addresses=tuple(NodeAddress(type=kind, address=one) for kind, one in addresses)))


def test_the_first_address_of_the_most_preferred_type_is_dialled() -> None:
    node = node_with(("Hostname", "n1"), ("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"))
    assert str(address_of(node, ADDRESS_TYPES)) == "10.0.0.1:10250"
    assert str(address_of(node, ("ExternalDNS", "Hostname"))) == "n1:10250"


def test_the_port_is_what_the_kubelet_reports() -> None:
    assert str(address_of(node_at(4711, "fd00::1"), ADDRESS_TYPES)) == "[fd00::1]:4711"


def test_a_node_without_an_address_of_those_types_says_which_it_has() -> None:
    with pytest.raises(ApiError) as refused:
        address_of(node_with(("Hostname", "n1")), ("InternalIP",))
    assert refused.value.message == "no preferred addresses found; known addresses: [{Hostname n1}]"
    assert refused.value.code == 500


def test_options_of_logs_are_passed_on() -> None:
    options = PodLogOptions(follow=True, tail_lines=0, since=datetime(2026, 1, 2, tzinfo=UTC), stream="Stdout")
    assert log_target(POD, "app", options) == (
        "/containerLogs/default/web/app?follow=true&sinceTime=2026-01-02T00%3A00%3A00Z&stream=Stdout&tailLines=0"
    )
    assert log_target(POD, "app", PodLogOptions()) == "/containerLogs/default/web/app?stream=All"


def test_streams_are_asked_for_by_the_kubelets_own_names() -> None:
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
def test_a_kubelets_refusal_reaches_the_client_as_upstream_words_it(status: int, reason: str, message: str) -> None:
    made = log_error(status, b"said", "web")
    assert (made.code, made.reason, made.message) == (status, reason, message)


def test_addresses_of_this_machine_alone_are_known() -> None:
    assert [is_proxyable_address(host) for host in ("10.0.0.1", "node.example", "127.0.0.1", "::1", "169.254.0.1")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_the_flags_default_is_the_dialers() -> None:
    import argparse

    commands = argparse.ArgumentParser().add_subparsers()
    add_command(commands)
    assert commands.choices["apiserver"].parse_args([]).kubelet_preferred_address_types == ADDRESS_TYPES
