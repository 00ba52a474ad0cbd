# SPDX-License-Identifier: Apache-2.0
"""Reads the addresses of the machine's interfaces by netlink."""

from __future__ import annotations

import socket
import struct
from typing import Final

from kubeloop.proxy.ip_family import IPV6, IPFamily
from kubeloop.proxy.kernel.netlink import NetlinkSocket, attributes

_RTM_GETADDR: Final = 22
_IFA_ADDRESS: Final = 1
_IFA_LOCAL: Final = 2
_IFADDRMSG: Final = struct.Struct("=BBBBI")


def interface_addresses(family: IPFamily) -> tuple[str, ...]:
    """Return the addresses of one family; blocks for a short time. Raises OSError."""
    number = socket.AF_INET6 if family is IPV6 else socket.AF_INET
    found: list[str] = []
    with NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        for message in netlink.dump(_RTM_GETADDR, _IFADDRMSG.pack(number, 0, 0, 0, 0)):
            if message[0] != number:
                continue
            rows = dict(attributes(message, _IFADDRMSG.size))
            packed = rows.get(_IFA_LOCAL) or rows.get(_IFA_ADDRESS)
            if packed:
                found.append(socket.inet_ntop(number, packed))
    return tuple(found)
