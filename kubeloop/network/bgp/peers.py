# SPDX-License-Identifier: Apache-2.0
"""Configuration file of BGP: peers outside the cluster."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any, Final

import msgspec

_UNSAFE: Final = frozenset('"\\\n\r')
_LAST_AS: Final = (1 << 32) - 1


class BgpConfigError(Exception):
    """Reason for which the configuration of BGP cannot be used."""


class BgpPeer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Router outside the cluster that some nodes, or all, peer with."""

    name: str
    address: str
    asn: int
    password: str = ""
    multihop: int = 0  # hops to the router; 0 for one on the node's link
    node_selector: dict[str, str] = {}  # labels of the nodes that peer with it; empty for all
    accept: tuple[str, ...] = ()  # networks that nodes accept from it; none by default

    @property
    def version(self) -> int:
        """IP family of the session."""
        return ip_address(self.address).version


class BgpConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Content of the file."""

    peers: tuple[BgpPeer, ...] = ()


def parse_bgp_config(document: Any) -> BgpConfig:
    """Build the configuration from a decoded document. Raises `BgpConfigError`."""
    try:
        config = msgspec.convert(document or {}, BgpConfig)
    except msgspec.ValidationError as error:
        raise BgpConfigError(str(error)) from None
    names = [peer.name for peer in config.peers]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise BgpConfigError(f"two peers are named {min(repeated)}")
    for peer in config.peers:
        _check_peer(peer)
    return config


def _check_peer(peer: BgpPeer) -> None:
    try:
        ip_address(peer.address)
        for text in peer.accept:
            ip_network(text)
    except ValueError as error:
        raise BgpConfigError(f"peer {peer.name}: {error}") from None
    if not peer.name:
        raise BgpConfigError("a peer has no name")
    if not 0 < peer.asn <= _LAST_AS:
        raise BgpConfigError(f"peer {peer.name}: {peer.asn} is not an AS number")
    if not 0 <= peer.multihop < 256:
        raise BgpConfigError(f"peer {peer.name}: multihop must be between 0 and 255")
    if _UNSAFE.intersection(peer.password):
        raise BgpConfigError(f"peer {peer.name}: the password has a quote, a backslash or a line break")
