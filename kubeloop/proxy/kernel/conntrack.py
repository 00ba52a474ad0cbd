# SPDX-License-Identifier: Apache-2.0
"""Connection tracking by netlink: lists UDP flows and deletes some. Calls block: use a worker thread."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from kubeloop.proxy.ip_family import IPV6, IPFamily
from kubeloop.proxy.kernel.netlink import NetlinkSocket, attribute, attributes

_NFNL_SUBSYS_CTNETLINK: Final = 1
_GET: Final = _NFNL_SUBSYS_CTNETLINK << 8 | 1
_DELETE: Final = _NFNL_SUBSYS_CTNETLINK << 8 | 2
_NFGENMSG: Final = struct.Struct(">BBH")
_NETLINK_NETFILTER: Final = 12
_TUPLE_ORIGINAL, _TUPLE_REPLY, _ID, _ZONE = 1, 2, 12, 18
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_PROTO_NUMBER, _SOURCE_PORT, _DESTINATION_PORT = 1, 2, 3
_UDP: Final = bytes([socket.IPPROTO_UDP])


class UdpFlow(NamedTuple):
    """Tracked UDP flow: original destination, and the endpoint that answers; with what identifies it to the kernel."""

    destination: str
    destination_port: int
    endpoint: str
    endpoint_port: int
    identity: bytes  # attributes: original tuple, zone, id


class ConntrackTable:
    """The kernel's table of tracked connections."""

    def list_udp(self, family: IPFamily) -> list[UdpFlow]:
        """Return the UDP flows of a family. Raises OSError."""
        number = _number(family)
        with NetlinkSocket(_NETLINK_NETFILTER) as netlink:
            messages = netlink.dump(_GET, _NFGENMSG.pack(number, 0, 0))
            return [flow for message in messages if (flow := parse_udp_flow(message, number)) is not None]

    def delete(self, family: IPFamily, flows: Iterable[UdpFlow]) -> int:
        """Delete flows and return their number; those that have ended meanwhile do not count. Raises OSError."""
        deleted = 0
        with NetlinkSocket(_NETLINK_NETFILTER) as netlink:
            for flow in flows:
                try:
                    netlink.call(_DELETE, _NFGENMSG.pack(_number(family), 0, 0) + flow.identity)
                except OSError as error:
                    if error.errno != errno.ENOENT:
                        raise
                else:
                    deleted += 1
        return deleted


def parse_udp_flow(message: bytes, family: int) -> UdpFlow | None:
    """Return the flow of a message, or None if it is of another protocol. Pure."""
    rows = dict(attributes(message, _NFGENMSG.size))
    original = dict(attributes(rows.get(_TUPLE_ORIGINAL, b"")))
    ports = dict(attributes(original.get(_TUPLE_PROTO, b"")))
    if ports.get(_PROTO_NUMBER) != _UDP:
        return None
    reply = dict(attributes(rows.get(_TUPLE_REPLY, b"")))
    reply_ports = dict(attributes(reply.get(_TUPLE_PROTO, b"")))
    identity = b"".join(attribute(kind | _flags(kind), rows[kind]) for kind in _IDENTITY if kind in rows)
    return UdpFlow(
        _address(original, family, is_source=False),
        _port(ports, _DESTINATION_PORT),
        _address(reply, family, is_source=True),
        _port(reply_ports, _SOURCE_PORT),
        identity,
    )


_IDENTITY: Final = (_TUPLE_ORIGINAL, _ZONE, _ID)


def _flags(kind: int) -> int:
    return 0x8000 if kind == _TUPLE_ORIGINAL else 0  # nested


def _address(rows: dict[int, bytes], family: int, *, is_source: bool) -> str:
    addresses = dict(attributes(rows.get(_TUPLE_IP, b"")))
    first = 3 if family == socket.AF_INET6 else 1  # CTA_IP_V6_SRC or CTA_IP_V4_SRC; the destination follows
    packed = addresses.get(first if is_source else first + 1)
    return socket.inet_ntop(family, packed) if packed else ""


def _port(rows: dict[int, bytes], kind: int) -> int:
    return int.from_bytes(rows.get(kind, b""), "big")


def _number(family: IPFamily) -> int:
    return socket.AF_INET6 if family is IPV6 else socket.AF_INET
