# SPDX-License-Identifier: Apache-2.0
"""Start of the proxy: the API server it calls, the kernel's settings, and what nftables has to support."""

from __future__ import annotations

import asyncio
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Final

from kubeloop.cli.proxy.flags import ProxyOptions
from kubeloop.client.config.server_config import ServerConfig, in_cluster, load_config
from kubeloop.nftables import Nftables
from kubeloop.proxy.config.configuration import KubeProxyConfiguration
from kubeloop.proxy.ip_family import IPFamily
from kubeloop.proxy.kernel.settings import (
    SKIP_VERSION_CHECK,
    apply_conntrack_settings,
    apply_oom_score,
    check_kernel_version,
    conntrack_settings,
    online_cpus,
)
from kubeloop.proxy.node_addresses import nodeport_addresses
from kubeloop.proxy.rules.base_table import base_rules
from kubeloop.proxy.rules.scripts import table_script
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.table import ProxyTable

FILE_CHECK_SECONDS: Final = 2.0


def prepare_kernel(config: KubeProxyConfiguration) -> None:
    """Check the kernel and change its settings. Raises `KernelSettingsError`."""
    if not os.environ.get(SKIP_VERSION_CHECK):
        check_kernel_version(platform.release())
    apply_conntrack_settings(conntrack_settings(config.conntrack, online_cpus()))
    apply_oom_score(config.oom_score_adj)


def server_of(options: ProxyOptions) -> ServerConfig:
    """Return the API server: of the kubeconfig, of --master, or of the cluster this runs in. Raises ConfigError."""
    path = options.config.client_connection.kubeconfig
    if path:
        found = load_config(path)
        return replace(found, server=options.master) if options.master else found
    return ServerConfig(options.master) if options.master else in_cluster(os.environ)


async def wait_file_changed(path: Path) -> None:
    """Wait until a file is written or replaced; a file that is gone for a moment does not count."""
    before = _identity(path)
    while (found := _identity(path)) is None or found == before:  # noqa: ASYNC110  # there is no event
        await asyncio.sleep(FILE_CHECK_SECONDS)


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


async def check_table_support(nftables: Nftables, families: tuple[IPFamily, ...]) -> None:
    """Check, without a change, that nft and the kernel know all that an empty table needs. Raises `NftablesError`."""
    for family in families:
        settings = TableSettings(family, nodeport_addresses=nodeport_addresses((), family))
        table = ProxyTable(settings)
        table.set_chains(base_rules(settings))
        await nftables.run(table_script(table, {}), check=True)
