# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the network of the real node: pod network, service proxy and DNS.

prepare_network: checks, before the kubelet starts ─▶ start_node_network: programs, once the node is registered
"""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NamedTuple

from kubeloop.cli.flags.values import flag_values
from kubeloop.cli.local_clusters.network_status import NETWORK_FOLDER, NetworkComponent
from kubeloop.cli.network.removal import (
    NodeNetworkRecord,
    load_network_record,
    remove_node_network,
    save_network_record,
)
from kubeloop.cli.network.run import NetworkProgram, config_of
from kubeloop.cli.program.files import write_private
from kubeloop.cli.proxy.program import ProxyProgram
from kubeloop.cli.up.node_network.cluster_dns import NodeDns, start_dns
from kubeloop.cli.up.node_network.plan import NodeIdentity, NodeNetworkPlan, ProgramOptions, program_options
from kubeloop.cli.up.node_network.requirements import check_cni, check_machine, read_cni_folders
from kubeloop.cli.up.node_network.status_port import open_status_port
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.network.cni.cni_config import REPORT_PLUGIN
from kubeloop.network.cni.config_writer import CONFIG_NAME

_CLOSE_SECONDS: Final = 1.0


def network_folder(data: Path) -> Path:
    """Return the folder of the node's network in the data folder of a cluster."""
    return data / NETWORK_FOLDER


class PreparedNetwork(NamedTuple):
    """Checked settings of a network that is about to start."""

    plan: NodeNetworkPlan
    options: ProgramOptions
    record: NodeNetworkRecord


async def prepare_network(plan: NodeNetworkPlan, node: NodeIdentity, admin_kubeconfig: str) -> PreparedNetwork:
    """Check the machine and write the files of the programs. Raises `StartupError`."""
    await check_machine()
    options = program_options(plan, node, await read_cni_folders(node.endpoint))
    flags, cni = options.network, config_of(options.network).pod_network.cni
    if flags.cni_conf_dir and flags.cni_bin_dir:  # otherwise the user's own configuration is used
        check_cni(Path(flags.cni_conf_dir), Path(flags.cni_bin_dir), (cni.main_plugin, *cni.chain))
    node.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    write_private(node.kubeconfig, admin_kubeconfig.encode())
    record = _record_of(flags, load_network_record(node.folder))
    save_network_record(node.folder, record)
    return PreparedNetwork(plan, options, record)


def _record_of(flags: argparse.Namespace, known: NodeNetworkRecord | None) -> NodeNetworkRecord:
    """Return what has to be removed with the cluster; a plugin that was there before the cluster stays."""
    plugin = Path(flags.cni_bin_dir) / REPORT_PLUGIN
    return NodeNetworkRecord(
        configuration=str(Path(flags.cni_conf_dir) / CONFIG_NAME) if flags.cni_conf_dir else "",
        addresses=flags.cni_data_dir,
        run_dir=str(flags.run_dir),
        plugin=known.plugin if known is not None else "" if plugin.exists() else str(plugin),
        birdc=flags.birdc,
    )


class _Programs(NamedTuple):
    """Running programs."""

    network: NetworkProgram
    proxy: ProxyProgram
    dns: NodeDns


class NodeNetwork:
    """Running network of the node; created by `start_node_network`."""

    def __init__(self, prepared: PreparedNetwork, programs: _Programs, parts: AsyncExitStack) -> None:
        self._prepared = prepared
        self._network, self._proxy, self._dns = programs
        self._parts = parts

    @property
    def has_failed(self) -> bool:
        """True if a program ended by a failure."""
        return self._network.has_failed or self._proxy.has_failed

    def components(self) -> tuple[NetworkComponent, ...]:
        """Return the health of the programs."""
        options = self._prepared.options
        proxy_port = int(options.proxy_options.config.healthz_bind_address.rpartition(":")[2] or 0)
        return (
            NetworkComponent("pod-network", options.network.healthz_port, self._network.problem),
            NetworkComponent("service-proxy", proxy_port, self._proxy.problem),
            NetworkComponent("dns", self._dns.port, self._dns.problem),
        )

    async def open_status_port(self, clock: Clock) -> int:
        """Serve the health of the programs at a port of loopback, and return the port."""
        server = await open_status_port(self.components, clock)
        self._parts.push_async_callback(server.close, _CLOSE_SECONDS)
        return server.port

    async def close(self) -> None:
        """Stop the programs. Pods keep their network, and Services theirs."""
        await self._parts.aclose()

    async def remove(self) -> None:
        """Remove the network from the machine; the programs must have been stopped, and pods removed."""
        await remove_node_network(self._prepared.record)


async def start_node_network(prepared: PreparedNetwork, client: Client, clock: Clock) -> NodeNetwork:
    """Start the programs; they follow the API server from then on. Raises `StartupError`."""
    options = prepared.options
    async with AsyncExitStack() as parts:
        network = NetworkProgram(options.network, clock, announce=lambda _: None)
        parts.push_async_callback(network.close)
        await network.start()
        proxy = ProxyProgram(options.proxy_options, flag_values(options.proxy), clock, announce=lambda _: None)
        parts.push_async_callback(proxy.close)
        await proxy.start()
        dns = await start_dns(options.dns, prepared.plan.service_range, client, clock)
        parts.push_async_callback(dns.close)
        return NodeNetwork(prepared, _Programs(network, proxy, dns), parts.pop_all())
