# SPDX-License-Identifier: Apache-2.0
"""Wire codec, with dnspython as the oracle in both directions."""

from __future__ import annotations

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.dns.wire.answer import DnsAnswer, encode_bad_version, encode_response
from kubeloop.dns.wire.builder import AnswerBuilder, Section
from kubeloop.dns.wire.constants import AA, Rcode, RRType
from kubeloop.dns.wire.message import answer_records, parse_message
from kubeloop.dns.wire.names import (
    DnsFormatError,
    encode_name,
    is_below,
    join_labels,
    name_text,
    read_name,
    split_labels,
)
from kubeloop.dns.wire.query import DnsQuery, parse_query

LABELS = st.binary(min_size=1, max_size=63)
WORDS = st.sampled_from((b"a", b"B", b"www", b"example", b"com", b"cluster", b"local", b"svc", b"_tcp", b"x" * 40))
NAMES = st.lists(LABELS, max_size=4).filter(lambda labels: sum(map(len, labels)) + len(labels) < 255).map(join_labels)
SIMILAR_NAMES = st.lists(WORDS, max_size=5).map(join_labels)  # share suffixes, so that they are compressed
TYPES = st.sampled_from(("A", "AAAA", "SRV", "TXT", "ANY", "HTTPS", "TYPE65280"))


def oracle_name(name: bytes) -> dns.name.Name:
    return dns.name.Name([*split_labels(name), b""])


@given(NAMES)
def test_name_text_is_that_of_dnspython(name: bytes) -> None:
    assert dns.name.from_text(name_text(name)) == oracle_name(name)
    assert read_name(name, 0) == (name, len(name))


@given(SIMILAR_NAMES, SIMILAR_NAMES)
def test_subdomains_are_those_of_dnspython(name: bytes, parent: bytes) -> None:
    expected = oracle_name(name).is_subdomain(oracle_name(parent))
    assert is_below(name.lower(), parent.lower()) == expected


@pytest.mark.parametrize("text", ["a..b", ".a", "x" * 64, "ü.com", ".".join(["x" * 60] * 5)])
def test_invalid_names_are_rejected(text: str) -> None:
    with pytest.raises(DnsFormatError):
        encode_name(text)


@given(NAMES, TYPES, st.booleans(), st.none() | st.integers(0, 65535), st.booleans(), st.lists(st.binary(max_size=9)))
def test_queries_of_dnspython_are_parsed(
    name: bytes, rrtype: str, rd: bool, size: int | None, do: bool, options: list[bytes]
) -> None:
    edns = [dns.edns.GenericOption(10, data) for data in options]
    query = dns.message.make_query(
        *(oracle_name(name), rrtype),
        use_edns=-1 if size is None else 0,
        want_dnssec=do and size is not None,
        payload=size or 0,
        options=edns if size is not None else None,
        flags=dns.flags.RD if rd else 0,
    )
    found = parse_query(query.to_wire())
    assert found.id == query.id
    assert bool(found.flags & dns.flags.RD) == rd
    assert found.name == name.lower()
    assert found.question == name + query.question[0].rdtype.to_bytes(2) + b"\0\1"
    assert found.udp_size == size
    assert found.dnssec_ok == (do and size is not None)


@given(
    SIMILAR_NAMES,
    st.lists(st.tuples(st.sampled_from("acpsxn"), SIMILAR_NAMES, SIMILAR_NAMES, st.integers(0, 2)), max_size=12),
)
def test_answers_are_read_by_dnspython(name: bytes, records: list[tuple[str, bytes, bytes, int]]) -> None:
    builder = AnswerBuilder(name, 7)
    expected: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for kind, owner, target, section in sorted(records, key=lambda one: 0 if one[0] == "s" else one[3]):
        place = Section(0 if kind == "s" else section)
        expected[place].append(_add(builder, kind, place, (owner, target)))
    query = DnsQuery(5, 0x0100, name + b"\0\1\0\1", name.lower(), 1, 1)
    data = encode_response(query, builder.build(AA), True)
    parsed = dns.message.from_wire(data, one_rr_per_rrset=True)
    for section, found in enumerate((parsed.answer, parsed.authority, parsed.additional)):
        assert [f"{one.name} {one.ttl} {dns.rdatatype.to_text(one.rdtype)} {one[0]}".lower() for one in found] == [
            line.lower() for line in expected[section]
        ]
    ours = parse_message(data)
    assert [oracle_name(one.name) for one in ours.records] == [
        one.name for one in (*parsed.answer, *parsed.authority, *parsed.additional)
    ]
    assert [one.ttl for one in answer_records(query, ours.to_answer())] == [7] * len(records)


def _add(builder: AnswerBuilder, kind: str, section: Section, names: tuple[bytes, bytes]) -> str:
    owner, target = names
    shown, data = oracle_name(owner), oracle_name(target)
    if kind == "a":
        builder.add_address(section, owner, b"\x0a\0\0\x01")
        return f"{shown} 7 A 10.0.0.1"
    if kind == "x":
        builder.add(section, owner, RRType.TXT, b"\x02hi")
        return f'{shown} 7 TXT "hi"'
    if kind == "s":
        builder.add_srv(owner, 3, 80, target)
        return f"{shown} 7 SRV 0 3 80 {data}"
    rrtype = {"c": RRType.CNAME, "p": RRType.PTR, "n": RRType.NS}[kind]
    builder.add_name(section, owner, rrtype, target)
    return f"{shown} 7 {rrtype.name} {data}"


@given(SIMILAR_NAMES, st.integers(0, 80), st.none() | st.integers(0, 5000), st.booleans())
def test_responses_fit_the_limit(name: bytes, count: int, size: int | None, is_stream: bool) -> None:
    builder = AnswerBuilder(name, 30)
    builder.add_addresses([bytes((10, 0, 0, number)) for number in range(count)])
    query = DnsQuery(1, 0, name + b"\0\1\0\1", name.lower(), 1, 1, size)
    data = encode_response(query, builder.build(AA), is_stream)
    limit = 65535 if is_stream else min(max(size or 0, 512), 1232)
    assert len(data) <= limit
    parsed = dns.message.from_wire(data)
    found = sum(len(one) for one in parsed.answer)
    assert bool(parsed.flags & dns.flags.TC) == (found < count)
    assert found == count or len(data) + 16 > limit
    assert (parsed.edns == 0) == (size is not None)


def test_addresses_rotate() -> None:
    name = encode_name("a.example")
    builder = AnswerBuilder(name, 30)
    builder.add_addresses([bytes((10, 0, 0, number)) for number in range(3)])
    answer = builder.build(AA)
    query = DnsQuery(1, 0, name + b"\0\1\0\1", name, 1, 1)
    firsts = []
    for _ in range(6):
        parsed = dns.message.from_wire(encode_response(query, answer, False))
        assert len(parsed.answer[0]) == 3
        firsts.append(next(iter(parsed.answer[0])).address)
    assert sorted(firsts) == ["10.0.0.0", "10.0.0.0", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"]


def test_unknown_edns_version_has_its_own_response() -> None:
    query = dns.message.make_query("a.example", "A", use_edns=0)
    data = bytearray(query.to_wire())
    data[-5] = 1  # the version
    parsed = dns.message.from_wire(encode_bad_version(parse_query(bytes(data))))
    assert parsed.rcode() == dns.rcode.BADVERS
    assert parsed.edns == 0


def test_large_answer_stops_compressing_beyond_the_reach_of_pointers() -> None:
    name = encode_name("n.example")
    builder = AnswerBuilder(name, 1)
    targets = [encode_name(f"{'t' * 60}{number}.zone{number}.test") for number in range(300)]
    for target in targets:
        builder.add_srv(name, 1, 1, target)
    for target in targets:
        builder.add_address(Section.ADDITIONAL, target, b"\x0a\0\0\1")
    query = DnsQuery(1, 0, name + b"\0\x21\0\1", name, 33, 1)
    parsed = dns.message.from_wire(encode_response(query, builder.build(AA), True))
    assert len(parsed.additional) == 300


@pytest.mark.parametrize(
    "data",
    [
        b"\xc0\x00",  # a pointer to itself
        b"\x01a\xc0\x02",  # a pointer to the pointer
        b"\x40a\0",  # a reserved form
        b"\x05ab",
        b"\x01a",
        b"\xc0",
        b"",
    ],
)
def test_malformed_names_are_rejected(data: bytes) -> None:
    with pytest.raises(DnsFormatError):
        read_name(data, 0)


def test_pointer_loops_end() -> None:
    with pytest.raises(DnsFormatError):
        read_name(b"\x01a\xc0\x04\x01b\xc0\x00", 4)


@settings(max_examples=300)
@given(st.binary(max_size=80) | st.builds(lambda head, tail: head + tail, st.binary(min_size=12, max_size=12), NAMES))
def test_messages_that_parse_are_those_that_dnspython_reads(data: bytes) -> None:
    try:
        found = parse_message(data)
    except DnsFormatError:
        return
    again = dns.message.from_wire(data, one_rr_per_rrset=True, ignore_trailing=False)
    assert len(found.records) >= len(again.answer)


def test_error_answers_have_no_records() -> None:
    answer = DnsAnswer(Rcode.SERVFAIL)
    assert (answer.rcode, answer.sections, answer.body) == (2, (0, 0, 0), b"")
