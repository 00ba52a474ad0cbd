# SPDX-License-Identifier: Apache-2.0
"""Forwarder against real servers on loopback: validation, retries, TCP after truncation, limits."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import dns.flags
import dns.message
import dns.rcode
import pytest

from kubeloop.clock import SystemClock
from kubeloop.dns.forward.addresses import UpstreamError, check_loops, parse_upstream, read_resolv_conf
from kubeloop.dns.forward.answer_cache import AnswerCache
from kubeloop.dns.forward.forwarder import DnsForwarder, ForwardSettings
from kubeloop.dns.forward.upstream import UpstreamResolver
from kubeloop.dns.wire.answer import encode_response
from kubeloop.dns.wire.constants import AD
from kubeloop.dns.wire.names import encode_name
from kubeloop.dns.wire.query import DnsQuery, new_query, parse_query
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.dns.dns_objects import external, lines, new_channel, new_handler, new_zone, service
from tests.unit.dns.upstream_server import reply, upstream_server

T = TypeVar("T")
PATIENT = ForwardSettings(attempt_timeout=GIVE_UP_SECONDS / 2, deadline=GIVE_UP_SECONDS)
SOA = "example. 60 IN SOA ns.example. admin.example. 1 2 3 4 20"
QUERY = parse_query(dns.message.make_query("www.example", "A").to_wire())


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            return await work()

    return asyncio.run(bounded())


def forwarder_of(*servers: Any, settings: ForwardSettings = PATIENT) -> DnsForwarder:
    clock = SystemClock()
    upstreams = [UpstreamResolver(getattr(one, "address", one), clock) for one in servers]
    return DnsForwarder(upstreams, AnswerCache(clock), clock, settings)


async def resolve(forwarder: DnsForwarder, query: DnsQuery = QUERY) -> dns.message.Message:
    return dns.message.from_wire(encode_response(query, await forwarder.resolve(query), True))


def closed_port() -> tuple[str, int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return "127.0.0.1", one.getsockname()[1]


def test_answer_is_forwarded_and_then_cached() -> None:
    async def work() -> None:
        async with upstream_server(lambda query, _: reply(query, "www.example. 20 IN A 192.0.2.1")) as server:
            forwarder = forwarder_of(server)
            assert forwarder.cached(QUERY) is None
            response = await resolve(forwarder)
            assert lines(response) == ["www.example. 20 A 192.0.2.1"]
            assert response.flags & dns.flags.RA
            assert not response.flags & dns.flags.AA
            assert not response.flags & dns.flags.AD
            cached = forwarder.cached(QUERY)
            assert cached is not None
            again = dns.message.from_wire(encode_response(QUERY, cached, False))
            assert lines(again) == lines(response)
            assert again.flags & dns.flags.AA  # as CoreDNS, for old resolvers
            assert len(server.queries) == 1
            assert server.queries[0][0].flags & dns.flags.RD

    run(work)


def test_question_is_forwarded_in_the_case_of_the_client() -> None:
    async def work() -> None:
        async with upstream_server(lambda query, _: reply(query, rcode=dns.rcode.REFUSED)) as server:
            query = parse_query(dns.message.make_query("wWw.exAMPle", "A").to_wire())
            await resolve(forwarder_of(server), query)
            assert server.queries[0][0].question[0].name.labels[:2] == (b"wWw", b"exAMPle")

    run(work)


def test_query_ids_and_source_ports_differ() -> None:
    async def work() -> None:
        async with upstream_server(lambda query, _: reply(query, rcode=dns.rcode.REFUSED)) as server:
            forwarder = forwarder_of(server)
            for _ in range(20):
                await resolve(forwarder)
            assert len({query.id for query, _ in server.queries}) > 15
            assert len(set(server.ports)) > 15

    run(work)


def test_wrong_responses_are_ignored() -> None:
    def answer(query: dns.message.Message, _: bool) -> list[bytes]:
        good = reply(query, "www.example. 20 IN A 192.0.2.1")
        wrong_id = bytes((good[0] ^ 1,)) + good[1:]
        other = reply(dns.message.make_query("other.example", "A", id=query.id), "other.example. 9 IN A 192.0.2.6")
        no_response = good[:2] + bytes((good[2] & 0x7F,)) + good[3:]
        return [b"", b"x" * 20, wrong_id, other, no_response, good]

    async def work() -> None:
        async with upstream_server(answer) as server:
            assert lines(await resolve(forwarder_of(server))) == ["www.example. 20 A 192.0.2.1"]

    run(work)


def test_truncated_response_is_asked_for_over_tcp() -> None:
    records = [f"www.example. 20 IN A 192.0.2.{number}" for number in range(1, 200)]

    def answer(query: dns.message.Message, is_stream: bool) -> bytes:
        if is_stream:
            return reply(query, *records)
        response = dns.message.make_response(query)
        response.flags |= dns.flags.TC
        return response.to_wire()

    async def work() -> None:
        async with upstream_server(answer) as server:
            assert len(lines(await resolve(forwarder_of(server)))) == 199
            assert [is_stream for _, is_stream in server.queries] == [False, True]

    run(work)


def test_truncated_response_is_passed_on_if_tcp_fails() -> None:
    def answer(query: dns.message.Message, is_stream: bool) -> bytes | None:
        response = dns.message.make_response(query)
        response.flags |= dns.flags.TC
        return None if is_stream else response.to_wire()

    async def work() -> None:
        async with upstream_server(answer) as server:
            forwarder = forwarder_of(server)
            assert (await resolve(forwarder)).flags & dns.flags.TC
            assert forwarder.cached(QUERY) is None

    run(work)


def test_other_upstreams_are_tried_after_a_failure() -> None:
    async def work() -> None:
        async with (
            upstream_server(lambda query, _: reply(query, "www.example. 20 IN A 192.0.2.1")) as good,
            upstream_server(lambda query, _: None) as silent,
        ):
            settings = ForwardSettings(attempt_timeout=2.0, deadline=GIVE_UP_SECONDS, attempts_per_upstream=20)
            forwarder = forwarder_of(closed_port(), silent, good, settings=settings)
            for number in range(5):
                query = new_query(encode_name(f"n{number}.example"), 1)
                assert (await resolve(forwarder, query)).rcode() == dns.rcode.NOERROR
            assert len(silent.queries) <= 1  # it is tried last for ten seconds after its failure

    run(work)


def test_failure_of_all_upstreams_is_servfail_within_the_deadline() -> None:
    async def work() -> None:
        settings = ForwardSettings(attempt_timeout=0.1, deadline=0.5, attempts_per_upstream=50)
        async with upstream_server(lambda query, _: None) as silent:
            began = asyncio.get_running_loop().time()
            assert (await resolve(forwarder_of(silent, settings=settings))).rcode() == dns.rcode.SERVFAIL
            assert asyncio.get_running_loop().time() - began < GIVE_UP_SECONDS / 2
            assert 1 <= len(silent.queries) <= 6

    run(work)


def test_equal_questions_share_an_exchange() -> None:
    async def work() -> None:
        async with upstream_server(lambda query, _: reply(query, "www.example. 20 IN A 192.0.2.1")) as server:
            forwarder = forwarder_of(server)
            upper = replace(QUERY, question=QUERY.question.replace(b"www", b"WWW"))
            found = await asyncio.gather(*(resolve(forwarder, query) for query in (QUERY, upper) * 20))
            assert {line for one in found for line in lines(one)} == {
                "www.example. 20 A 192.0.2.1",
                "WWW.example. 20 A 192.0.2.1",
            }
            assert len(server.queries) == 1

    run(work)


def test_too_many_queries_are_refused() -> None:
    async def work() -> None:
        settings = ForwardSettings(max_concurrent=3, attempt_timeout=0.2, deadline=0.2)
        async with upstream_server(lambda query, _: None) as silent:
            forwarder = forwarder_of(silent, settings=settings)
            queries = [new_query(encode_name(f"n{number}.example"), 1) for number in range(5)]
            found = await asyncio.gather(*(resolve(forwarder, query) for query in queries))
            codes = [dns.rcode.to_text(one.rcode()) for one in found]
            assert sorted(codes) == ["REFUSED"] * 2 + ["SERVFAIL"] * 3
            assert forwarder.rejected == 2

    run(work)


def test_authenticated_data_shows_only_to_clients_that_ask() -> None:
    def answer(query: dns.message.Message, _: bool) -> bytes:
        response = dns.message.from_wire(reply(query, "www.example. 20 IN A 192.0.2.1"))
        response.flags |= dns.flags.AD
        return response.to_wire()

    async def work() -> None:
        async with upstream_server(answer) as server:
            forwarder = forwarder_of(server)
            assert not (await resolve(forwarder)).flags & dns.flags.AD
            cached = forwarder.cached(replace(QUERY, flags=QUERY.flags | AD))
            assert cached is not None
            assert cached.flags & AD

    run(work)


def test_alias_is_resolved_by_the_forwarder() -> None:
    def answer(query: dns.message.Message, _: bool) -> bytes:
        asked = query.question[0].name.to_text()
        if asked == "www.example.":
            return reply(query, "www.example. 20 IN CNAME real.example.", "real.example. 10 IN A 192.0.2.1")
        return reply(query, rcode=dns.rcode.NXDOMAIN, authority=(SOA,))

    zone = new_zone(
        external("out", "www.example"),
        external("gone", "nothing.example"),
        external("near", "web.default.svc.cluster.local"),
        external("far", "near.default.svc.cluster.local."),
        external("loop", "pool.default.svc.cluster.local"),
        external("pool", "loop.default.svc.cluster.local"),
        external("self", "self.default.svc.cluster.local"),
        external("void", "nothing.default.svc.cluster.local"),
        service("web", "10.3.0.1"),
    )

    async def work() -> dict[str, list[str]]:
        async with upstream_server(answer) as server:
            handler = new_handler(zone, forwarder_of(server))
            found = {}
            for name in ("out", "gone", "near", "far", "loop", "self", "void"):
                query = dns.message.make_query(f"{name}.default.svc.cluster.local", "A")
                response = handler.respond(query.to_wire(), new_channel(), is_stream=False)
                assert response is not None
                assert not isinstance(response, bytes)
                parsed = dns.message.from_wire(await response)
                assert parsed.rcode() == dns.rcode.NOERROR
                assert parsed.flags & dns.flags.AA
                assert bool(parsed.authority) == (not parsed.answer)
                found[name] = lines(parsed)
            return found

    svc = "default.svc.cluster.local."
    assert run(work) == {
        "out": sorted(
            [f"out.{svc} 30 CNAME www.example.", "real.example. 10 A 192.0.2.1", "www.example. 10 CNAME real.example."]
        ),
        "gone": [f"gone.{svc} 30 CNAME nothing.example."],
        "near": [f"near.{svc} 30 CNAME web.{svc}", f"web.{svc} 30 A 10.3.0.1"],
        "far": [f"far.{svc} 30 CNAME near.{svc}", f"near.{svc} 30 CNAME web.{svc}", f"web.{svc} 30 A 10.3.0.1"],
        "loop": [],
        "self": [],
        "void": [],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.0.2.1", ("192.0.2.1", 53)),
        ("192.0.2.1:5353", ("192.0.2.1", 5353)),
        ("2001:db8::1", ("2001:db8::1", 53)),
        ("[2001:db8::1]:5353", ("2001:db8::1", 5353)),
        ("[2001:db8::1]", ("2001:db8::1", 53)),
    ],
)
def test_upstream_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_upstream(text) == expected


@pytest.mark.parametrize("text", ["", "dns.example", "192.0.2.1:0", "192.0.2.1:x", "192.0.2.1:70000", "[::1"])
def test_invalid_upstream_addresses(text: str) -> None:
    with pytest.raises(UpstreamError):
        parse_upstream(text)


def test_resolv_conf() -> None:
    text = (
        "# nameserver 192.0.2.9\nsearch a b\nnameserver 192.0.2.1 # first\nnameserver ::1\nnameserver x\nnameserver\n"
    )
    assert read_resolv_conf(text) == [("192.0.2.1", 53), ("::1", 53)]


def test_own_address_is_no_upstream() -> None:
    for upstream, own in (
        (("127.0.0.1", 53), ("127.0.0.1", 53)),
        (("127.0.0.2", 53), ("0.0.0.0", 53)),
    ):
        with pytest.raises(UpstreamError, match="loop"):
            check_loops([upstream], [own])
    check_loops([("127.0.0.1", 54), ("192.0.2.1", 53)], [("0.0.0.0", 53)])
    check_loops([("127.0.0.53", 53)], [("127.0.0.1", 53)])
