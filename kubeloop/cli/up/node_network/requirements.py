# SPDX-License-Identifier: Apache-2.0
"""Checks of the machine for the network of a node: root, libraries, CNI folders without other configurations, plugins.

Every reason to refuse names the flag that leaves the host's network alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from kubeloop.api.generated.networking_v1 import ServiceCIDR
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.network.run import check_requirements
from kubeloop.client import Client
from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.network.cni.cni_config import REPORT_PLUGIN
from kubeloop.network.cni.config_writer import CONFIG_NAME
from kubeloop.nftables import NftablesUnavailable
from kubeloop.nftables.library import open_nftables

_CALL_SECONDS: Final = 10.0
_CONFIGURATIONS: Final = Path("/etc/cni/net.d")
_PLUGIN_FOLDERS: Final = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
_ADDRESS_PLUGIN: Final = "host-local"
_ENDINGS: Final = (".conf", ".conflist", ".json")  # of files that runtimes read
_OTHERWISE: Final = "; --node-network=none leaves the network of this host as it is"


class CniFolders(NamedTuple):
    """Folders of the container runtime."""

    configurations: Path
    plugins: Path


class MissingRequirement(StartupError):
    """Reason why the network of the node cannot be set up, with the flag that does without."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}{_OTHERWISE}")


async def check_machine() -> None:
    """Check that the kernel's network can be changed. Raises `StartupError`."""
    try:
        check_requirements()
        nftables = await open_nftables()
    except (StartupError, NftablesUnavailable) as error:
        raise MissingRequirement(f"the network of the node needs root, nftables and pyroute2: {error}") from None
    await nftables.close()


async def check_service_range(dns_ip: str, client: Client) -> None:
    """Check that the cluster, which may be older than its node, has the cluster IP of DNS. Raises `StartupError`."""
    ranges = [one for found in (await client.list(ServiceCIDR)).items for one in found.spec.cidrs]
    if ranges and not any(ip_address(dns_ip) in ip_network(one) for one in ranges):
        shown = ",".join(ranges)
        raise MissingRequirement(
            f"this cluster was created with the cluster IPs {shown}: start it with --service-cluster-ip-range={shown}"
        )


async def read_cni_folders(endpoint: str) -> CniFolders:
    """Ask the container runtime for its CNI folders; one that does not tell has the usual ones."""
    channel = UnixChannel(endpoint)
    try:
        status = await RuntimeService(channel, _CALL_SECONDS).status(verbose=True)
    except RpcError as error:
        raise StartupError(f"the container runtime at {endpoint} does not answer: {error.details}") from None
    finally:
        await channel.close()
    return cni_folders_of(status.info)


def cni_folders_of(info: Mapping[str, str]) -> CniFolders:
    """Return the folders of containerd's configuration, which a verbose status has as JSON."""
    try:
        config = msgspec.json.decode(info.get("config", "{}"))
        cni = config.get("cni") or {}
        plugins = cni.get("binDir") or next(iter(cni.get("binDirs") or ()), "")
        configurations = cni.get("confDir") or ""
    except (msgspec.DecodeError, AttributeError, TypeError):
        plugins = configurations = ""
    return CniFolders(
        Path(configurations) if configurations else _CONFIGURATIONS,
        Path(plugins) if plugins else _usual_plugins(),
    )


def _usual_plugins() -> Path:
    return next((one for one in _PLUGIN_FOLDERS if (one / _ADDRESS_PLUGIN).exists()), _PLUGIN_FOLDERS[0])


def check_cni(configurations: Path, plugins: Path, names: Sequence[str]) -> None:
    """Check that no other program configures pods, and that the plugins are installed. Raises `StartupError`."""
    if others := other_configurations(configurations):
        raise MissingRequirement(
            f"{configurations} has the CNI configuration of another program ({', '.join(others)}): move it away"
        )
    missing = [one for one in (*names, _ADDRESS_PLUGIN) if one != REPORT_PLUGIN and not (plugins / one).exists()]
    if missing:
        raise MissingRequirement(
            f"{plugins} has no CNI plugin {' and no '.join(missing)}: install the standard plugins "
            "(Debian: containernetworking-plugins)"
        )


def other_configurations(folder: Path) -> list[str]:
    """Return the CNI configurations in a folder that are not ours."""
    if not folder.is_dir():
        return []
    return sorted(one.name for one in folder.iterdir() if one.suffix in _ENDINGS and one.name != CONFIG_NAME)
