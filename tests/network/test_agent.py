# SPDX-License-Identifier: Apache-2.0
"""The two loops of a node on an in-process API server, with a kernel and nftables of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import Namespace, Node, NodeSpec, Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.networking_v1 import NetworkPolicy
from kubeloop.network.agent import PodNetworkConfig
from kubeloop.network.app import NetworkApp, NetworkConfig, NodeInterfaces
from kubeloop.network.backends import HostGatewayBackend
from kubeloop.network.netlink.difference import KernelOperation
from kubeloop.network.netlink.kernel import NetlinkFailure, NodeLink
from kubeloop.network.netlink.kernel_state import KernelRoute, KernelState
from kubeloop.nftables import NftablesError
from kubeloop.runtime.controller import Telemetry
from tests.unit.runtime.in_process_server import Server, play

FOREIGN = KernelRoute("10.244.9.0/24", "172.30.0.9")  # of an earlier process


class Kernel:
    """Kernel that keeps routes, and refuses some."""

    def __init__(self) -> None:
        self.routes = {FOREIGN}
        self.refused: set[str] = set()
        self.operations: list[KernelOperation] = []

    async def read_state(self) -> KernelState:
        return KernelState(frozenset(self.routes))

    async def apply(self, operation: KernelOperation) -> None:
        self.operations.append(operation)
        route = operation.subject
        assert isinstance(route, KernelRoute)
        if route.gateway in self.refused:
            raise NetlinkFailure("Network is unreachable")
        if operation.verb == "delete":
            self.routes.discard(route)
        else:
            self.routes = {one for one in self.routes if one.destination != route.destination} | {route}

    async def link_of(self, address: str) -> NodeLink | None:
        return NodeLink("eth0", 1500) if address.startswith("172.30.") else None


class Nftables:
    """Records scripts, and refuses the next ones on demand."""

    def __init__(self) -> None:
        self.scripts: list[str] = []
        self.failures = 0
        self.missing = ""  # table that a check does not find

    async def run(self, script: str, *, check: bool = False) -> str:
        if self.missing and script.startswith(f"list chain inet {self.missing}"):
            raise NftablesError("No such file or directory")
        if self.failures and "kubeloop-network-policy" in script:
            self.failures -= 1
            raise NftablesError("refused")
        self.scripts.append(script)
        return ""

    async def close(self) -> None:
        pass

    def take(self) -> list[str]:
        """Return the scripts of policies since the last time, without checks of the table."""
        found = [one for one in self.scripts if "kubeloop-network-policy" in one and not one.startswith("list ")]
        self.scripts.clear()
        return found


class Bench:
    """Agent of node n1."""

    def __init__(self, server: Server, folder: Path) -> None:
        (folder / "sys/net/ipv4").mkdir(parents=True)
        self.forwarding = folder / "sys/net/ipv4/ip_forward"
        self.forwarding.write_text("0\n")
        self.client, self.loop = server.client, server.loop
        self.kernel, self.nftables, self.folder = Kernel(), Nftables(), folder
        config = NetworkConfig(PodNetworkConfig("n1", cni_folder=folder / "net.d", proc=folder))
        interfaces = NodeInterfaces(HostGatewayBackend(), self.kernel, self.nftables)
        self.app = NetworkApp(server.client, server.clock, Telemetry(), interfaces, config)
        self.running = asyncio.create_task(self.app.run())

    async def settle(self) -> None:
        await self.loop.advance(1.0)

    async def node(self, number: int, cidr: str = "") -> None:
        meta, spec = ObjectMeta(name=f"n{number}"), NodeSpec(pod_cidr=cidr, pod_cidrs=(cidr,) if cidr else ())
        await self.client.create(Node(metadata=meta, spec=spec))
        addresses = [{"type": "InternalIP", "address": f"172.30.0.{number}"}]
        await self.client.patch(Node, meta.name, {"status": {"addresses": addresses}}, subresource="status")

    def has_config(self) -> bool:
        return (self.folder / "net.d" / "10-kubeloop.conflist").exists()


def bench(folder: Path, scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def main(server: Server) -> None:
        found = Bench(server, folder)
        try:
            await scenario(found)
        finally:
            found.running.cancel()
            await asyncio.wait((found.running,))

    play(main)


def gateways(kernel: Kernel) -> set[str]:
    return {one.gateway for one in kernel.routes if one.gateway}


def test_node_gets_its_network_with_its_pod_cidr(tmp_path: Path) -> None:
    async def scenario(agent: Bench) -> None:
        await agent.node(1)
        await agent.node(2, "10.244.2.0/24")
        await agent.settle()
        assert not agent.has_config()
        assert not agent.app.is_ready
        await agent.client.patch(Node, "n1", {"spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]}})
        await agent.settle()
        assert agent.has_config()
        assert agent.app.is_ready
        assert agent.kernel.routes == {KernelRoute("10.244.1.0/24"), KernelRoute("10.244.2.0/24", "172.30.0.2")}
        assert agent.forwarding.read_text() == "1"
        node: Node = await agent.client.get(Node, "n1")
        [condition] = [one for one in node.status.conditions if one.type == "NetworkUnavailable"]
        assert (condition.status, condition.reason) == ("False", "RouteCreated")

    bench(tmp_path, scenario)


def test_one_refused_route_does_not_prevent_others_and_is_retried(tmp_path: Path) -> None:
    async def scenario(agent: Bench) -> None:
        agent.kernel.refused = {"172.30.0.2"}
        for number in (1, 2, 3):
            await agent.node(number, f"10.244.{number}.0/24")
        await agent.settle()
        assert gateways(agent.kernel) == {"172.30.0.3"}
        assert not agent.app.is_ready
        agent.kernel.refused = set()
        await agent.loop.advance(31.0)
        assert gateways(agent.kernel) == {"172.30.0.2", "172.30.0.3"}
        assert agent.app.is_ready

    bench(tmp_path, scenario)


def test_nodes_leave_and_nothing_is_written_twice(tmp_path: Path) -> None:
    async def scenario(agent: Bench) -> None:
        for number in (1, 2):
            await agent.node(number, f"10.244.{number}.0/24")
        await agent.settle()
        agent.kernel.operations.clear()
        await agent.loop.advance(120.0)
        assert agent.kernel.operations == []
        await agent.client.delete(Node, "n2")
        await agent.settle()
        assert gateways(agent.kernel) == set()
        agent.kernel.routes.clear()  # by somebody else
        await agent.loop.advance(31.0)
        assert agent.kernel.routes == {KernelRoute("10.244.1.0/24")}

    bench(tmp_path, scenario)


def pod(name: str) -> Pod:
    document: dict[str, Any] = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": document}, Pod)


async def run_pod(agent: Bench, name: str, address: str) -> None:
    await agent.client.create(pod(name))
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    await agent.client.patch(Pod, name, {"status": status}, "default", subresource="status")


def test_policies_are_loaded_once_and_then_changed_by_elements(tmp_path: Path) -> None:
    async def scenario(agent: Bench) -> None:
        await agent.client.create(Namespace(metadata=ObjectMeta(name="other")))
        await agent.node(1, "10.244.1.0/24")
        await agent.settle()
        first = "".join(agent.nftables.take())
        assert "delete table inet kubeloop-network-policy" in first
        await agent.client.create(NetworkPolicy(metadata=ObjectMeta(name="deny", namespace="default")))
        await agent.settle()
        [script] = agent.nftables.take()
        assert "delete table" not in script
        assert "guarded-4 { 10.244.1.0/24 }" in script
        await run_pod(agent, "a", "10.244.1.5")
        await agent.settle()
        script = "".join(agent.nftables.take())
        assert "add element inet kubeloop-network-policy ingress-4 { 10.244.1.5 : goto ingress-" in script
        assert "add rule" in script  # the chain of the first pod with these policies
        await run_pod(agent, "b", "10.244.1.6")
        await agent.settle()
        lines = "".join(agent.nftables.take()).splitlines()
        assert lines
        assert all(line.startswith("add element") and "10.244.1.6" in line for line in lines)

    bench(tmp_path, scenario)


def test_refused_change_replaces_the_whole_table(tmp_path: Path) -> None:
    async def scenario(agent: Bench) -> None:
        await agent.node(1, "10.244.1.0/24")
        await agent.settle()
        agent.nftables.take()
        agent.nftables.failures = 2  # the change, and the first replacement
        await agent.client.create(NetworkPolicy(metadata=ObjectMeta(name="deny", namespace="default")))
        await agent.settle()
        [script] = agent.nftables.take()
        assert "delete table inet kubeloop-network-policy" in script
        assert "guarded-4 { 10.244.1.0/24 }" in script
        agent.nftables.failures = 1  # the periodic check finds no table
        await agent.loop.advance(31.0)
        [script] = agent.nftables.take()
        assert "delete table inet kubeloop-network-policy" in script

    bench(tmp_path, scenario)


def test_removed_masquerade_table_is_restored(tmp_path: Path) -> None:
    async def scenario(agent: Bench) -> None:
        await agent.node(1, "10.244.1.0/24")
        await agent.settle()
        assert any("add table inet kubeloop-masquerade" in one for one in agent.nftables.scripts)
        agent.nftables.scripts.clear()
        await agent.loop.advance(31.0)
        assert not any("add table inet kubeloop-masquerade" in one for one in agent.nftables.scripts)
        agent.nftables.missing = "kubeloop-masquerade"
        await agent.loop.advance(31.0)
        assert any("add table inet kubeloop-masquerade" in one for one in agent.nftables.scripts)

    bench(tmp_path, scenario)
