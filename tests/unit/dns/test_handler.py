# SPDX-License-Identifier: Apache-2.0
"""Choice of the answer: both ways to a prepared answer agree, and the header follows the query."""

from __future__ import annotations

import logging

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.dns.server.handler import DnsHandler
from kubeloop.dns.wire.answer import encode_response
from kubeloop.dns.wire.query import parse_query
from tests.unit.dns.dns_objects import (
    ManualDnsClock,
    ask,
    code,
    endpoint,
    endpoint_slice,
    lines,
    new_channel,
    new_handler,
    new_zone,
    service,
)

ADDRESSES = [f"10.1.0.{number}" for number in range(1, 41)]
ZONE = new_zone(
    service("web", "10.3.0.1"),
    service("many", "None"),
    endpoint_slice("many", *(endpoint(address) for address in ADDRESSES)),
)
SVC = "default.svc.cluster.local."


@given(
    st.sampled_from(("web", "WEB", "_http._tcp.web", "many", "no")),
    st.sampled_from(("A", "AAAA", "SRV", "TXT")),
    st.integers(0, 0xFFFF).map(lambda flags: flags & (dns.flags.RD | dns.flags.CD | dns.flags.AD)),
    st.none() | st.integers(0, 5000),
    st.booleans(),
    st.booleans(),
)
def test_prepared_and_parsed_way_give_the_same_response(
    label: str, rrtype: str, flags: int, size: int | None, do: bool, is_stream: bool
) -> None:
    query = dns.message.make_query(
        *(f"{label}.{SVC}", rrtype),
        flags=flags,
        use_edns=-1 if size is None else 0,
        want_dnssec=do and size is not None,
        payload=size or 0,
        options=[dns.edns.GenericOption(10, b"12345678")] if size is not None else None,
    )
    data = query.to_wire()
    response = new_handler(ZONE).respond(data, new_channel(), is_stream=is_stream)
    parsed = parse_query(data)
    answer = ZONE.lookup(parsed)
    assert isinstance(response, bytes)
    other = encode_response(parsed, answer, is_stream)  # type: ignore[arg-type]
    ours, theirs = dns.message.from_wire(response), dns.message.from_wire(other)
    assert ours.flags == theirs.flags
    assert ours.flags & (dns.flags.RD | dns.flags.CD) == flags & (dns.flags.RD | dns.flags.CD)
    assert (ours.edns, ours.ednsflags, ours.payload, ours.options) == (
        *(theirs.edns, theirs.ednsflags, theirs.payload, theirs.options),
    )
    assert len(response) == len(other)
    if not ours.flags & dns.flags.TC:
        assert lines(ours) == lines(theirs)
    assert lines(ours, "authority") == lines(theirs, "authority")


@pytest.mark.parametrize("rrtype", ["A", "AAAA"])
def test_other_types_that_look_alike_in_lower_case_are_told_apart(rrtype: str) -> None:
    """Type 65 (HTTPS) is the letter A, type 97 the letter a."""
    zone = new_zone(service("web", "10.3.0.1", "2001:db8::1"))
    assert code(ask(zone, f"web.{SVC}", rrtype)) == "NOERROR"
    for other in ("HTTPS", "TYPE97"):
        assert code(ask(zone, f"web.{SVC}", other)) == "NODATA"


def respond(data: bytes) -> bytes:
    response = new_handler(ZONE).respond(data, new_channel(), is_stream=False)
    assert isinstance(response, bytes)
    return response


def test_other_opcodes_are_not_implemented() -> None:
    query = dns.message.make_query(f"web.{SVC}", "A")
    query.set_opcode(dns.opcode.NOTIFY)
    response = respond(query.to_wire())
    assert len(response) == 12
    parsed = dns.message.from_wire(response)
    assert (parsed.rcode(), parsed.opcode(), parsed.id) == (dns.rcode.NOTIMP, dns.opcode.NOTIFY, query.id)


def test_other_classes_are_refused() -> None:
    for rrclass in ("CH", "ANY"):
        response = dns.message.from_wire(respond(dns.message.make_query("version.bind", "TXT", rrclass).to_wire()))
        assert response.rcode() == dns.rcode.REFUSED


def test_malformed_queries_are_answered_by_a_header() -> None:
    good = dns.message.make_query(f"web.{SVC}", "A", use_edns=0).to_wire()
    plain = dns.message.make_query(f"web.{SVC}", "A", use_edns=-1).to_wire()
    opt = good[-11:]
    for data in (
        plain[:5] + b"\2" + plain[6:] + plain[12:],  # two questions
        plain[:5] + b"\0" + plain[6:12],  # none
        plain[:7] + b"\1" + plain[8:],  # an answer that is missing
        good[:11] + b"\2" + good[12:] + opt,  # two OPT records
        good[:-1],
        good + b"\0",
        plain[:12] + b"\xc0\x0c" + plain[-4:],
        good[:-2] + b"\0\5",  # options that are missing
    ):
        response = respond(data)
        assert len(response) == 12
        assert response[3] & 0xF == dns.rcode.FORMERR


def test_any_is_answered_minimally_outside_of_the_cluster() -> None:
    assert lines(ask(ZONE, "example.com.", "ANY")) == ['example.com. 8482 HINFO "ANY obsoleted" "See RFC 8482"']


def test_queries_are_logged_if_wanted(caplog: pytest.LogCaptureFixture) -> None:
    handler = DnsHandler(ZONE, None, ManualDnsClock(), is_logging=True)
    with caplog.at_level(logging.INFO):
        ask(handler, f"web.{SVC}")
        ask(handler, "x\\000y.example.", "TXT")
        handler.respond(b"x" * 12, new_channel(), is_stream=False)
    assert [record.getMessage().rpartition(" ")[0] for record in caplog.records] == [
        f'"web.{SVC} IN A udp" NOERROR 63',
        '"x\\000y.example. IN TXT udp" REFUSED 29',
        '". IN TYPE0 udp" NOTIMP 12',
    ]
