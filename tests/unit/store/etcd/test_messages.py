# SPDX-License-Identifier: Apache-2.0
"""etcd's messages as bytes, and its address as a URL."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.protobuf_wire import ProtobufError, bytes_field, integer_field, read_fields
from kubeloop.store import StoreError
from kubeloop.store.etcd.config import EtcdConfig, config_of_servers, config_of_url
from kubeloop.store.etcd.messages import (
    put_if_revision_request,
    read_key_value,
    read_lease,
    read_range,
    read_revision,
    read_txn,
    read_watch,
)

NO_FILES: dict[str, str] = {}


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 2**64 - 1) | st.binary(max_size=300)), max_size=20))
def test_fields_round_trip(written: list[tuple[int, int | bytes]]) -> None:
    message = b"".join(integer_field(n, v) if isinstance(v, int) else bytes_field(n, v) for n, v in written)
    assert list(read_fields(message)) == written


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_rejected(message: bytes) -> None:
    try:
        read_watch(message)
        read_key_value(message)
        read_txn(message)
        read_revision(message)
    except ProtobufError:
        pass


@pytest.mark.parametrize("read", [read_key_value, read_lease, read_range, read_revision, read_txn, read_watch])
@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\x18" + b"\xff" * 10 + b"\x01", "proto: integer overflow"),
        (b"\x0a" + b"\x80" * 10 + b"\x00", "proto: integer overflow"),
        (b"\xff" * 11, "proto: integer overflow"),
        (b"\x18" + b"\xff" * 9, "unexpected EOF"),
        (b"\x0a\x05abc", "unexpected EOF"),
        (b"\x09" + bytes(7), "unexpected EOF"),
        (b"\x0b\x0c", "proto: illegal wireType 3"),
    ],
)
def test_an_overlong_number_and_a_truncated_message_are_refused(
    read: Callable[[bytes], object], message: bytes, why: str
) -> None:
    with pytest.raises(ProtobufError) as caught:
        read(message)
    assert str(caught.value) == why


@pytest.mark.parametrize("read", [read_revision, read_txn])
@pytest.mark.parametrize("header", [b"\x08", b"\x08" + b"\xff" * 9, b"\x08" + b"\xff" * 11, b"\x18\x80"])
def test_a_header_with_a_broken_number_is_refused(read: Callable[[bytes], object], header: bytes) -> None:
    with pytest.raises(ProtobufError):
        read(bytes_field(1, header))


def test_transaction_matches_protobuf() -> None:
    # compare{result EQUAL, target MOD, key "k", mod_revision 5}, success{put{k, v}}, failure{range{k}}
    compare = bytes.fromhex("0800 1002 1a016b 3005")
    put = bytes.fromhex("1206 0a016b 120176")
    look = bytes.fromhex("0a03 0a016b")
    expected = b"\x0a" + bytes([len(compare)]) + compare + b"\x12" + bytes([len(put)]) + put
    assert put_if_revision_request(b"k", b"v", 5) == expected + b"\x1a" + bytes([len(look)]) + look


@pytest.mark.parametrize(
    ("url", "config"),
    [
        ("etcd://a:1,b", EtcdConfig(("a:1", "b:2379"))),
        ("etcd://[::1]/x/", EtcdConfig(("[::1]:2379",), "/x/")),
        ("etcd://a?cafile=%2Fca", EtcdConfig(("a:2379",), tls=True, cafile="/ca")),
        ("etcd://a?tls=true", EtcdConfig(("a:2379",), tls=True)),
    ],
)
def test_url_has_members_prefix_and_files(url: str, config: EtcdConfig) -> None:
    assert config_of_url(url) == config
    assert config_of_url(config.url()) == config


def test_flags_give_the_same_configuration() -> None:
    files = {"cafile": "/ca", "certfile": "/c", "keyfile": "/k"}
    config = config_of_servers("https://a:1,https://b:2", "registry", files)
    assert config == EtcdConfig(("a:1", "b:2"), tls=True, cafile="/ca", certfile="/c", keyfile="/k")
    assert config_of_url(config.url()) == config
    assert config_of_servers("http://a:1", "/registry", NO_FILES) == EtcdConfig(("a:1",))


@pytest.mark.parametrize("servers", ["", "ftp://a", "http://", "http://a,https://b"])
def test_invalid_servers_are_rejected(servers: str) -> None:
    with pytest.raises(StoreError, match="--etcd-servers"):
        config_of_servers(servers, "", NO_FILES)


@pytest.mark.parametrize("url", ["etcd://", "etcd://a?colour=red", "etcd://a?certfile=/c"])
def test_invalid_urls_are_rejected(url: str) -> None:
    with pytest.raises(StoreError):
        config_of_url(url)


@given(st.integers(1, 2**63), st.integers(1, 2**63), st.integers(0, 2**62), st.integers(0, 300))
def test_revision_of_a_transaction_is_found(cluster: int, member: int, revision: int, term: int) -> None:
    header = integer_field(1, cluster) + integer_field(2, member) + integer_field(3, revision) + integer_field(4, term)
    answer = read_txn(bytes_field(1, header) + integer_field(2, 1))
    assert (answer.revision, answer.succeeded) == (revision, True)
    assert read_txn(bytes_field(1, integer_field(1, cluster))).revision == 0
