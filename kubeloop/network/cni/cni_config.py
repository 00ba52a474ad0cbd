# SPDX-License-Identifier: Apache-2.0
"""CNI configuration list of a node, for the standard plugins. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubeloop.network.nodes import PodNetwork

CNI_VERSION: Final = "1.0.0"  # the newest that containerd 1.6 and plugins 1.1 know; 1.1 adds GC and STATUS
PTP, BRIDGE = "ptp", "bridge"
MAIN_PLUGINS: Final = (PTP, BRIDGE)
CHAINED_PLUGINS: Final = ("portmap", "bandwidth", "tuning", "firewall")
DEFAULT_CHAIN: Final = ("portmap", "bandwidth")
REPORT_PLUGIN: Final = "kubeloop-policy"
BRIDGE_LINK: Final = "kubeloop0"
_DEFAULT_ROUTES: Final = {4: "0.0.0.0/0", 6: "::/0"}
_CAPABILITIES: Final = {"portmap": {"portMappings": True}, "bandwidth": {"bandwidth": True}}


@dataclass(frozen=True, slots=True)
class CniSettings:
    """Settings of the configuration that do not depend on the cluster."""

    network_name: str = "kubeloop"
    main_plugin: str = PTP
    chain: tuple[str, ...] = DEFAULT_CHAIN
    data_dir: str = "/var/lib/cni/networks"
    report_socket: str = ""  # of the agent; without one, addresses of new pods are not reported
    sysctls: Mapping[str, str] = field(default_factory=dict)  # of each pod, set by the plugin tuning


def build_config(settings: CniSettings, pod_cidrs: Sequence[PodNetwork], mtu: int) -> dict[str, Any]:
    """Return the configuration list for the pod CIDRs of a node."""
    plugins = [_main_plugin(settings, pod_cidrs, mtu)]
    plugins += [_chained_plugin(name, settings) for name in settings.chain]
    if settings.report_socket:
        plugins.append({"type": REPORT_PLUGIN, "socket": settings.report_socket})
    return {"cniVersion": CNI_VERSION, "name": settings.network_name, "plugins": plugins}


def encode_config(config: Mapping[str, Any]) -> bytes:
    """Return the configuration as the content of its file."""
    return msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n"


def _main_plugin(settings: CniSettings, pod_cidrs: Sequence[PodNetwork], mtu: int) -> dict[str, Any]:
    plugin: dict[str, Any] = {"type": settings.main_plugin, "mtu": mtu, "ipMasq": False}
    if settings.main_plugin == BRIDGE:
        plugin |= {"bridge": BRIDGE_LINK, "isGateway": True, "hairpinMode": True}
    plugin["ipam"] = {
        "type": "host-local",
        "dataDir": settings.data_dir,
        "ranges": [[{"subnet": str(network)}] for network in pod_cidrs],
        "routes": [{"dst": _DEFAULT_ROUTES[network.version]} for network in pod_cidrs],
    }
    return plugin


def _chained_plugin(name: str, settings: CniSettings) -> dict[str, Any]:
    plugin: dict[str, Any] = {"type": name}
    if name in _CAPABILITIES:
        plugin["capabilities"] = _CAPABILITIES[name]
    if name == "tuning":
        plugin["sysctl"] = dict(settings.sysctls)
    return plugin
