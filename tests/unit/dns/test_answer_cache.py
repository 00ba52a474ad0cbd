# SPDX-License-Identifier: Apache-2.0
"""Cache of forwarded answers, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import dns.message
import dns.rcode
import pytest

from kubeloop.dns.forward.answer_cache import AnswerCache
from kubeloop.dns.wire.answer import encode_response
from kubeloop.dns.wire.message import parse_message
from kubeloop.dns.wire.query import DnsQuery, parse_query
from tests.unit.dns.dns_objects import ManualDnsClock, lines
from tests.unit.dns.upstream_server import reply

SOA = "example. 60 IN SOA ns.example. admin.example. 1 2 3 4 20"
A = "www.example. 300 IN A 192.0.2.1"


def put(cache: AnswerCache, name: str, *records: str, rrtype: str = "A", **more: object) -> DnsQuery:
    asked = dns.message.make_query(name, rrtype)
    query = parse_query(asked.to_wire())
    cache.put(query, parse_message(reply(asked, *records, **more)))  # type: ignore[arg-type]
    return query


def get(cache: AnswerCache, query: DnsQuery) -> list[str] | None:
    found = cache.get(query)
    if found is None:
        return None
    response = dns.message.from_wire(encode_response(query, found, False))
    return lines(response) + lines(response, "authority")


def test_answer_lives_as_long_as_its_ttl_and_the_limit() -> None:
    clock = ManualDnsClock()
    cache = AnswerCache(clock, max_ttl=30)
    long = put(cache, "www.example", A)
    short = put(cache, "x.example", "x.example. 10 IN A 192.0.2.2", "x.example. 8 IN A 192.0.2.3")
    assert get(cache, long) == ["www.example. 30 A 192.0.2.1"]
    clock.seconds += 7.9
    assert get(cache, long) == ["www.example. 23 A 192.0.2.1"]
    assert get(cache, short) == ["x.example. 1 A 192.0.2.2", "x.example. 1 A 192.0.2.3"]
    clock.seconds += 0.2
    assert get(cache, short) is None
    clock.seconds += 21.8
    assert get(cache, long) == ["www.example. 1 A 192.0.2.1"]
    clock.seconds += 0.2
    assert get(cache, long) is None
    assert cache.size("success") == 0


@pytest.mark.parametrize("rcode", [dns.rcode.NXDOMAIN, dns.rcode.NOERROR])
def test_negative_answer_lives_as_long_as_the_minimum_of_its_soa(rcode: int) -> None:
    clock = ManualDnsClock()
    cache = AnswerCache(clock, max_ttl=30)
    query = put(cache, "no.example", rcode=rcode, authority=(SOA,))
    clock.seconds += 19.5
    assert get(cache, query) == ["example. 1 SOA ns.example. admin.example. 1 2 3 4 20"]
    assert cache.hits == {"success": 0, "denial": 1}
    clock.seconds += 1
    assert get(cache, query) is None


@pytest.mark.parametrize(
    ("records", "more"),
    [
        ((), {"rcode": dns.rcode.SERVFAIL}),
        ((), {"rcode": dns.rcode.REFUSED}),
        ((), {"rcode": dns.rcode.NXDOMAIN}),  # without an SOA record
        ((), {}),
        (("www.example. 0 IN A 192.0.2.1",), {}),
        (("www.example. 9 IN CNAME other.example.",), {}),  # leads nowhere
        (("www.example. 9 IN CNAME x.example.", "x.example. 9 IN CNAME www.example."), {}),
    ],
)
def test_response_that_is_not_cached(records: tuple[str, ...], more: dict[str, object]) -> None:
    cache = AnswerCache(ManualDnsClock())
    assert get(cache, put(cache, "www.example", *records, **more)) is None


def test_alias_without_data_is_negative() -> None:
    clock = ManualDnsClock()
    cache = AnswerCache(clock)
    put(cache, "www.example", "www.example. 9 IN CNAME other.example.", authority=(SOA,))
    assert (cache.size("success"), cache.size("denial")) == (0, 1)


def test_alias_with_data_is_positive() -> None:
    cache = AnswerCache(ManualDnsClock())
    put(cache, "www.example", "www.example. 9 IN CNAME X.example.", "x.example. 9 IN A 192.0.2.1")
    assert (cache.size("success"), cache.size("denial")) == (1, 0)


def test_answers_differ_by_type_and_flags() -> None:
    cache = AnswerCache(ManualDnsClock())
    query = put(cache, "www.example", A)
    assert get(cache, replace(query, dnssec_ok=True)) is None
    assert get(cache, replace(query, flags=query.flags | 0x0010)) is None
    assert get(cache, parse_query(dns.message.make_query("www.example", "AAAA").to_wire())) is None
    assert get(cache, parse_query(dns.message.make_query("WWW.EXAMPLE", "A").to_wire())) is not None


def test_newer_answer_replaces_an_older_one_of_the_other_kind() -> None:
    cache = AnswerCache(ManualDnsClock())
    query = put(cache, "www.example", A)
    put(cache, "www.example", rcode=dns.rcode.NXDOMAIN, authority=(SOA,))
    assert (cache.size("success"), cache.size("denial")) == (0, 1)
    assert get(cache, query) == ["example. 20 SOA ns.example. admin.example. 1 2 3 4 20"]


def test_longest_unused_answer_is_evicted() -> None:
    cache = AnswerCache(ManualDnsClock(), max_entries=2)
    first, second = (put(cache, f"{name}.example", f"{name}.example. 9 IN A 192.0.2.1") for name in "ab")
    assert get(cache, first)
    put(cache, "c.example", "c.example. 9 IN A 192.0.2.1")
    assert get(cache, second) is None
    assert get(cache, first)
    assert cache.evictions == {"success": 1, "denial": 0}


def test_no_cache_with_a_limit_of_zero() -> None:
    cache = AnswerCache(ManualDnsClock(), max_ttl=0)
    assert get(cache, put(cache, "www.example", A)) is None


def test_opt_record_of_the_upstream_is_not_passed_on() -> None:
    cache = AnswerCache(ManualDnsClock())
    asked = dns.message.make_query("www.example", "A", use_edns=0)
    query = parse_query(asked.to_wire())
    answer = cache.put(query, parse_message(reply(asked, A)))
    assert answer.sections == (1, 0, 0)
    assert dns.message.from_wire(encode_response(query, answer, False)).payload == 1232


def test_addresses_rotate_between_hits() -> None:
    cache = AnswerCache(ManualDnsClock())
    query = put(cache, "www.example", A, "www.example. 300 IN A 192.0.2.2")
    firsts = set()
    for _ in range(4):
        found = cache.get(query)
        assert found is not None
        firsts.add(found.body[12:16])
    assert len(firsts) == 2
