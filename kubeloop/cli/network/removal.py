# SPDX-License-Identifier: Apache-2.0
"""Removes the network of a node: routes, links, nftables tables, CNI configuration, plugin and addresses in use."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from kubeloop.cli.program.files import write_private
from kubeloop.network.bgp.bird import Bird, BirdError
from kubeloop.network.cni.cni_config import BRIDGE_LINK
from kubeloop.network.masquerade import REMOVAL as MASQUERADE_REMOVAL
from kubeloop.network.netlink.difference import difference
from kubeloop.network.netlink.kernel import NetlinkFailure, NetlinkKernel
from kubeloop.network.netlink.kernel_state import KernelState
from kubeloop.network.policy.tables import REMOVAL as POLICY_REMOVAL
from kubeloop.nftables import NftablesError
from kubeloop.nftables.library import open_nftables
from kubeloop.proxy.ip_family import IP_FAMILIES
from kubeloop.proxy.rules.scripts import delete_table_script

_FILE: Final = "network.json"

log = logging.getLogger(__name__)


class NodeNetworkRecord(msgspec.Struct, frozen=True, rename="camel"):
    """Files of a node's network outside of the cluster's folder, and its folder of addresses."""

    configuration: str  # CNI configuration
    addresses: str  # folder of host-local
    run_dir: str
    plugin: str = ""  # CNI plugin that was installed; empty if it was there before
    birdc: str = "birdc"


def save_network_record(folder: Path, record: NodeNetworkRecord) -> None:
    """Save the record of a cluster's node network."""
    write_private(folder / _FILE, msgspec.json.encode(record))


def load_network_record(folder: Path) -> NodeNetworkRecord | None:
    """Return the record of a cluster's node network, if it has one."""
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=NodeNetworkRecord)
    except (OSError, msgspec.DecodeError):
        return None


def remove_network_in(folder: Path) -> None:
    """Remove the network that a cluster has recorded in a folder, if it has one."""
    record = load_network_record(folder)
    if record is not None and os.geteuid() == 0:
        asyncio.run(remove_node_network(record))


async def remove_node_network(record: NodeNetworkRecord) -> None:
    """Remove everything that can be removed; failures are logged. Pods must have been removed before.

    If another cluster has taken the machine over, only the files of the record are removed.
    """
    if _is_taken_over(record):
        log.warning("%s is of another cluster, so the network of this machine stays", record.configuration)
    else:
        await _remove_from_machine(record)
    for folder in (record.addresses, record.run_dir):
        shutil.rmtree(folder, ignore_errors=True)


def _is_taken_over(record: NodeNetworkRecord) -> bool:
    """Return True if the CNI configuration names another folder of addresses."""
    try:
        return record.addresses not in Path(record.configuration).read_text()
    except OSError:
        return False


async def _remove_from_machine(record: NodeNetworkRecord) -> None:
    _remove_files(record.configuration, record.plugin)
    try:
        await Bird(Path(record.run_dir), client=record.birdc).stop()
        await _remove_tables()
        await _remove_links()
    except (BirdError, NftablesError, NetlinkFailure) as error:
        log.error("the network of the node was not removed completely: %s", error)


def _remove_files(*paths: str) -> None:
    for path in filter(None, paths):
        with suppress(FileNotFoundError):
            Path(path).unlink()


async def _remove_tables() -> None:
    nftables = await open_nftables()
    try:
        for script in (MASQUERADE_REMOVAL, POLICY_REMOVAL, *map(delete_table_script, IP_FAMILIES)):
            await nftables.run(script)
    finally:
        await nftables.close()


async def _remove_links() -> None:
    kernel = NetlinkKernel()
    try:
        for operation in difference(await kernel.read_state(), KernelState()):
            await kernel.apply(operation)
        await kernel.delete_link(BRIDGE_LINK)
    finally:
        kernel.close()
