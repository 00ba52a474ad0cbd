# SPDX-License-Identifier: Apache-2.0
"""Reads and changes the kernel's routes and links by netlink (pyroute2), in one thread beside the event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kubeloop.network.netlink.difference import KernelOperation
from kubeloop.network.netlink.kernel_state import (
    ROUTE_PROTOCOL,
    UNREACHABLE_METRIC,
    VXLAN_LINK,
    ForwardingEntry,
    KernelRoute,
    KernelState,
    Neighbour,
    VxlanLink,
)

_SECONDS: Final = 30.0
_MAIN_TABLE: Final = 254
_UNICAST: Final = 1
_UNREACHABLE: Final = 7
_PERMANENT: Final = 0x80
_PERMANENT_NOARP: Final = 0xC0
_SELF: Final = 0x02  # the entry belongs to the link, not to a bridge above it
_NODAD: Final = 0x02  # addresses of the overlay are unique by construction
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)

T = TypeVar("T")


class NetlinkFailure(Exception):
    """Reason for which the kernel refused a request."""


class NodeLink(NamedTuple):
    """Link that has an address of the node."""

    name: str
    mtu: int


class NetworkKernel(Protocol):
    """Network of the kernel, as far as it belongs to the agent."""

    async def read_state(self) -> KernelState:
        """Return the routes and the tunnel of the agent. Raises `NetlinkFailure`."""

    async def apply(self, operation: KernelOperation) -> None:
        """Apply a change. Raises `NetlinkFailure`."""

    async def link_of(self, address: str) -> NodeLink | None:
        """Return the link that has an address; None without any. Raises `NetlinkFailure`."""


class NetlinkKernel:
    """Network of the network namespace that the process is in."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="netlink")
        self._socket: Any = None

    async def read_state(self) -> KernelState:
        """Return the routes and the tunnel of the agent. Raises `NetlinkFailure`."""
        return await self._in_thread(self._read_state)

    async def apply(self, operation: KernelOperation) -> None:
        """Apply a change. Raises `NetlinkFailure`."""
        await self._in_thread(lambda: self._apply(operation))

    async def link_of(self, address: str) -> NodeLink | None:
        """Return the link that has an address; None without any. Raises `NetlinkFailure`."""
        return await self._in_thread(lambda: self._link_of(address))

    async def delete_link(self, name: str) -> None:
        """Delete a link, if there is one of that name. Raises `NetlinkFailure`."""
        await self._in_thread(lambda: self._delete_link(name))

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._thread.submit(self._socket.close)
        self._thread.shutdown(wait=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._call(work))
        except TimeoutError:
            raise NetlinkFailure(f"the kernel did not answer within {_SECONDS:g} s") from None

    def _call(self, work: Callable[[], T]) -> T:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        try:
            if self._socket is None:
                self._socket = IPRoute()
            return work()
        except (NetlinkError, OSError) as error:
            raise NetlinkFailure(str(error.args[-1] if error.args else error)) from None

    # Reading.

    def _read_state(self) -> KernelState:
        index = self._link_index()
        routes = frozenset(route for family in _FAMILIES for route in self._read_routes(family, index))
        if index is None:
            return KernelState(routes)
        link = self._read_link(index)
        neighbours = frozenset(
            Neighbour(_attr(one, "NDA_DST"), _attr(one, "NDA_LLADDR"))
            for one in self._socket.get_neighbours(ifindex=index)
            if one["state"] == _PERMANENT and _attr(one, "NDA_DST")
        )
        forwarding = frozenset(
            ForwardingEntry(_attr(one, "NDA_LLADDR"), _attr(one, "NDA_DST"))
            for one in self._socket.fdb("dump", ifindex=index)
            if _attr(one, "NDA_DST")
        )
        return KernelState(routes, link, neighbours, forwarding)

    def _read_routes(self, family: int, link: int | None) -> Iterator[KernelRoute]:
        for one in self._socket.get_routes(family=family, proto=ROUTE_PROTOCOL, table=_MAIN_TABLE):
            if one["proto"] != ROUTE_PROTOCOL or one["type"] not in (_UNICAST, _UNREACHABLE):
                continue
            destination = _attr(one, "RTA_DST") or ("::" if family == socket.AF_INET6 else "0.0.0.0")
            is_tunnel = link is not None and _attr(one, "RTA_OIF") == link
            gateway = _attr(one, "RTA_GATEWAY") or ""
            yield KernelRoute(f"{destination}/{one['dst_len']}", gateway, VXLAN_LINK if is_tunnel else "")

    def _read_link(self, index: int) -> VxlanLink:
        [link] = self._socket.get_links(index)
        info = link.get_nested("IFLA_LINKINFO", "IFLA_INFO_DATA")
        addresses = [f"{_attr(one, 'IFA_ADDRESS')}/{one['prefixlen']}" for one in self._socket.get_addr(index=index)]
        is_up = bool(link["flags"] & 1)
        return VxlanLink(
            vni=_attr(info, "IFLA_VXLAN_ID") if info else 0,
            port=_attr(info, "IFLA_VXLAN_PORT") if info else 0,
            mac=_attr(link, "IFLA_ADDRESS") if is_up else "",
            local=(_attr(info, "IFLA_VXLAN_LOCAL") or _attr(info, "IFLA_VXLAN_LOCAL6") or "") if info else "",
            mtu=_attr(link, "IFLA_MTU"),
            addresses=tuple(sorted(addresses)),
        )

    def _link_index(self) -> int | None:
        found = self._socket.link_lookup(ifname=VXLAN_LINK)
        return int(found[0]) if found else None

    def _link_of(self, address: str) -> NodeLink | None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for one in self._socket.get_addr(family=family):
            if (_attr(one, "IFA_LOCAL") or _attr(one, "IFA_ADDRESS")) == address:
                [link] = self._socket.get_links(one["index"])
                return NodeLink(str(_attr(link, "IFLA_IFNAME")), int(_attr(link, "IFLA_MTU")))
        return None

    # Changing.

    def _apply(self, operation: KernelOperation) -> None:
        verb, subject = operation
        if isinstance(subject, VxlanLink):
            self._change_link(verb, subject)
        elif isinstance(subject, KernelRoute):
            self._change_route(verb, subject)
        else:
            self._change_entry(verb, subject)

    def _change_route(self, verb: str, route: KernelRoute) -> None:
        words: dict[str, Any] = {"dst": route.destination, "proto": ROUTE_PROTOCOL, "table": _MAIN_TABLE}
        words["family"] = socket.AF_INET6 if route.is_ipv6 else socket.AF_INET
        if not route.gateway:
            words |= {"type": "unreachable", "priority": UNREACHABLE_METRIC}
        else:
            words["gateway"] = route.gateway
        if route.link:
            words |= {"oif": self._link_index(), "flags": ["onlink"]}
        self._socket.route("del" if verb == "delete" else "replace", **words)

    def _change_entry(self, verb: str, entry: Neighbour | ForwardingEntry) -> None:
        command, index = "del" if verb == "delete" else "replace", self._link_index()
        if isinstance(entry, Neighbour):
            family = socket.AF_INET6 if ":" in entry.address else socket.AF_INET
            words = {"dst": entry.address, "lladdr": entry.mac, "family": family, "state": _PERMANENT}
            self._socket.neigh(command, ifindex=index, **words)
        else:
            words = {"lladdr": entry.mac, "dst": entry.node_address, "state": _PERMANENT_NOARP, "flags": _SELF}
            self._socket.fdb(command, ifindex=index, **words)

    def _change_link(self, verb: str, link: VxlanLink) -> None:
        if verb == "delete":
            self._socket.link("del", index=self._link_index())
            return
        if verb == "add":
            local = "vxlan_local6" if ":" in link.local else "vxlan_local"
            words: dict[str, Any] = {"vxlan_id": link.vni, "vxlan_port": link.port, local: link.local}
            self._socket.link("add", ifname=link.name, kind="vxlan", vxlan_learning=0, address=link.mac, **words)
            with suppress(OSError):  # the link-local address is one of ours; a kernel without IPv6 has no such file
                Path(f"/proc/sys/net/ipv6/conf/{link.name}/addr_gen_mode").write_text("1")
        index = self._link_index()
        self._socket.link("set", index=index, mtu=link.mtu, address=link.mac)
        self._socket.link("set", index=index, state="up")
        self._set_addresses(index, link.addresses)

    def _delete_link(self, name: str) -> None:
        for index in self._socket.link_lookup(ifname=name):
            self._socket.link("del", index=index)

    def _set_addresses(self, index: int | None, wanted: tuple[str, ...]) -> None:
        present = {f"{_attr(one, 'IFA_ADDRESS')}/{one['prefixlen']}" for one in self._socket.get_addr(index=index)}
        for text in sorted(present - set(wanted)):
            address, _, length = text.partition("/")
            self._socket.addr("del", index=index, address=address, prefixlen=int(length))
        for text in sorted(set(wanted) - present):
            address, _, length = text.partition("/")
            flags = {"flags": _NODAD} if ":" in address else {}
            self._socket.addr("add", index=index, address=address, prefixlen=int(length), **flags)


def _attr(message: Any, name: str) -> Any:
    return message.get_attr(name)
