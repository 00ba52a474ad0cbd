# SPDX-License-Identifier: Apache-2.0
"""Hostile datagrams: the server neither fails nor amplifies."""

from __future__ import annotations

import random
from collections.abc import Iterator

import dns.message

from tests.unit.dns.dns_objects import endpoint, endpoint_slice, new_channel, new_handler, new_zone, service

ADDRESSES = [f"10.1.{number // 250}.{number % 250 + 1}" for number in range(300)]
ZONE = new_zone(
    service("web", "10.3.0.1"),
    service("many", "None"),
    endpoint_slice("many", *(endpoint(address) for address in ADDRESSES)),
)
NAMES = ["web.default.svc.cluster.local", "many.default.svc.cluster.local", "x.default.svc.cluster.local", "a.b.c"]
PACKETS = 20_000


def packets(chance: random.Random) -> Iterator[bytes]:
    """Yield random bytes, and valid queries that were damaged: cut off, extended, or with changed bytes."""
    for _ in range(PACKETS):
        if chance.random() < 0.25:
            yield chance.randbytes(chance.randrange(0, 600))
            continue
        edns = chance.choice((-1, 0))
        query = dns.message.make_query(chance.choice(NAMES), chance.choice(("A", "SRV", "TXT", "ANY")), use_edns=edns)
        data = bytearray(query.to_wire())
        for _ in range(chance.randrange(0, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        elif chance.random() < 0.3:
            data += chance.randbytes(chance.randrange(1, 40))
        yield bytes(data)


def test_garbage_is_answered_by_a_header_at_most_and_nothing_exceeds_the_limit() -> None:
    handler, channel = new_handler(ZONE), new_channel()
    seen = set()
    for data in packets(random.Random(7)):
        response = handler.respond(data, channel, is_stream=False)
        if response is None:
            assert len(data) < 12 or data[2] & 0x80
            continue
        assert isinstance(response, bytes)
        seen.add(response[3] & 0xF)
        assert response[:2] == data[:2]
        assert len(response) <= 1232
        if response[3] & 0xF in (1, 4) and response[4:6] == b"\0\0":
            assert len(response) == 12
        else:
            dns.message.from_wire(response)
    assert {0, 1, 3, 4, 5} <= seen  # answers, FORMERR, NXDOMAIN, NOTIMP, REFUSED


def test_responses_are_never_answered() -> None:
    handler, channel = new_handler(ZONE), new_channel()
    query = bytearray(dns.message.make_query(NAMES[0], "A").to_wire())
    query[2] |= 0x80
    assert handler.respond(bytes(query), channel, is_stream=False) is None


def test_large_answers_are_truncated_over_udp_and_whole_over_tcp() -> None:
    handler = new_handler(ZONE)
    query = dns.message.make_query(NAMES[1], "A", use_edns=-1)
    small = handler.respond(query.to_wire(), new_channel(), is_stream=False)
    whole = handler.respond(query.to_wire(), new_channel("tcp"), is_stream=True)
    assert isinstance(small, bytes)
    assert isinstance(whole, bytes)
    assert len(small) <= 512
    assert dns.message.from_wire(small).flags & dns.flags.TC
    assert sorted(one.address for one in dns.message.from_wire(whole).answer[0]) == sorted(ADDRESSES)
