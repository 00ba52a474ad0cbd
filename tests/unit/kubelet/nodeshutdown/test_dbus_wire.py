# SPDX-License-Identifier: Apache-2.0
"""Messages of D-Bus are encoded as the specification says, and malformed ones are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.kubelet.nodeshutdown.dbus_connection import DBusError, system_bus_path
from kubeloop.kubelet.nodeshutdown.dbus_wire import (
    METHOD_CALL,
    PREFIX_BYTES,
    DBusMessage,
    DBusWireError,
    decode_message,
    encode_message,
    message_length,
    split_signature,
)

# A call of org.freedesktop.DBus.Hello as libdbus sends it.
HELLO = bytes.fromhex(
    "6c010001000000000100000000000000"
    "01016f00150000002f6f72672f667265656465736b746f702f44427573000000"
    "02017300140000006f72672e667265656465736b746f702e4442757300000000"
    "030173000500000048656c6c6f000000"
    "06017300140000006f72672e667265656465736b746f702e4442757300000000"
)


def test_a_call_has_the_bytes_of_the_specification() -> None:
    bus = "org.freedesktop.DBus"
    made = encode_message(DBusMessage(METHOD_CALL, 1, "/org/freedesktop/DBus", bus, "Hello", destination=bus))
    expected = bytearray(HELLO)
    expected[12:16] = (len(HELLO) - PREFIX_BYTES - 3).to_bytes(4, "little")  # without the padding behind the fields
    assert made == bytes(expected)
    assert decode_message(made).member == "Hello"


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "y": st.integers(0, 255),
    "b": st.booleans(),
    "i": st.integers(-(1 << 31), (1 << 31) - 1),
    "u": st.integers(0, (1 << 32) - 1),
    "t": st.integers(0, (1 << 64) - 1),
    "s": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    "as": st.lists(st.text("ab/", max_size=5), max_size=3),
    "a(yt)": st.lists(st.tuples(st.integers(0, 255), st.integers(0, 9)), max_size=3),
    "(sab)": st.tuples(st.text("xyz", max_size=9), st.lists(st.booleans(), max_size=3)),
    "aai": st.lists(st.lists(st.integers(-9, 9), max_size=3), max_size=3),
}
BODIES = st.lists(st.sampled_from(sorted(VALUES)), max_size=5).flatmap(
    lambda kinds: st.tuples(st.just("".join(kinds)), st.tuples(*(VALUES[kind] for kind in kinds)))
)


@settings(deadline=None, max_examples=100)
@given(BODIES, st.integers(1, 1 << 31))
def test_messages_survive_the_wire(body: tuple[str, tuple[Any, ...]], serial: int) -> None:
    message = DBusMessage(METHOD_CALL, serial, "/a", "b.c", "D", signature=body[0], body=body[1])
    made = encode_message(message)
    assert message_length(made[:PREFIX_BYTES]) == len(made)
    assert decode_message(made) == message


@settings(deadline=None, max_examples=200)
@given(BODIES, st.data())
def test_damaged_messages_are_refused_or_read(body: tuple[str, tuple[Any, ...]], data: st.DataObject) -> None:
    made = bytearray(encode_message(DBusMessage(METHOD_CALL, 1, "/a", "b.c", "D", signature=body[0], body=body[1])))
    at = data.draw(st.integers(0, len(made) - 1))
    made[at] ^= data.draw(st.integers(1, 255))
    try:
        message_length(bytes(made[:PREFIX_BYTES]))
        decode_message(bytes(made))
    except DBusWireError:
        pass


def test_every_damage_of_one_byte_is_refused_or_read() -> None:
    made = encode_message(DBusMessage(METHOD_CALL, 1, "/a", "b.c", "D", signature="as", body=([],)))
    refused = 0
    for at in range(len(made)):
        for change in range(1, 256):
            damaged = bytearray(made)
            damaged[at] ^= change
            try:
                decode_message(bytes(damaged))
            except DBusWireError:
                refused += 1
    assert 0 < refused < 255 * len(made)


@pytest.mark.parametrize("signature", ["z", "(s", "a", "()", "a()"])
def test_wrong_signatures_are_refused(signature: str) -> None:
    with pytest.raises(DBusWireError):
        list(split_signature(signature))


def test_another_byte_order_is_refused() -> None:
    with pytest.raises(DBusWireError, match="byte order"):
        message_length(b"B" + HELLO[1:PREFIX_BYTES])


@pytest.mark.parametrize(
    ("address", "path"),
    [
        (None, "/var/run/dbus/system_bus_socket"),
        ("unix:path=/tmp/bus,guid=1", "/tmp/bus"),
        ("tcp:host=x;unix:abstract=bus", "\0bus"),
    ],
)
def test_addresses_of_the_bus(address: str | None, path: str) -> None:
    assert system_bus_path(address) == path


def test_an_address_without_a_socket_is_refused() -> None:
    with pytest.raises(DBusError, match="tcp:host=x"):
        system_bus_path("tcp:host=x")
