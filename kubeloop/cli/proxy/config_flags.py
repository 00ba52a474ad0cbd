# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop proxy` that set fields of its KubeProxyConfiguration; a file replaces all of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kubeloop.cli.flags.types import boolean, comma_separated, duration_text, number, whole_number

Parse = Callable[[str], Any]


def feature_gates(text: str) -> dict[str, bool]:
    """Parse `Name=true,Name=false`."""
    pairs = [one.partition("=") for one in comma_separated(text)]
    return {name.strip(): boolean(value.strip()) for name, _, value in pairs}


class ProxyFlag(NamedTuple):
    """Flag of a configuration field: path of the field, parser, default for the help, and what it does."""

    path: str
    parse: Parse
    default: str
    help: str
    metavar: str = ""


_PERIOD: Final = "longest time until a failed sync is repeated"
_IPTABLES: Final = "only of the mode iptables: no effect"
_IPVS: Final = "only of the mode ipvs: no effect"
CONFIG_FLAGS: Final[Mapping[str, ProxyFlag]] = {
    "feature-gates": ProxyFlag("featureGates", feature_gates, "", "feature gates: Name=true,Name=false", "GATES"),
    "kubeconfig": ProxyFlag(
        "clientConnection.kubeconfig", str, "", "kubeconfig with the API server and the credentials", "FILE"
    ),
    "kube-api-content-type": ProxyFlag(
        "clientConnection.contentType",
        str,
        "application/vnd.kubernetes.protobuf",
        "content type of requests to the API server; no effect, it is JSON",
        "TYPE",
    ),
    "kube-api-burst": ProxyFlag("clientConnection.burst", whole_number, "10", "burst of requests to the server", "N"),
    "kube-api-qps": ProxyFlag("clientConnection.qps", number, "5", "requests per second to the API server", "X"),
    "bind-address": ProxyFlag("bindAddress", str, "0.0.0.0", "primary IP of the node; no socket is bound to it", "IP"),
    "healthz-bind-address": ProxyFlag(
        "healthzBindAddress", str, "0.0.0.0:10256", "address and port of /healthz and /livez", "IP:PORT"
    ),
    "metrics-bind-address": ProxyFlag(
        "metricsBindAddress", str, "127.0.0.1:10249", "address and port of the metrics", "IP:PORT"
    ),
    "bind-address-hard-fail": ProxyFlag(
        "bindAddressHardFail", boolean, "false", "exit if the port of health or metrics cannot be bound", "BOOL"
    ),
    "profiling": ProxyFlag("enableProfiling", boolean, "false", "no effect: there are no Go profiles", "BOOL"),
    "show-hidden-metrics-for-version": ProxyFlag(
        "showHiddenMetricsForVersion", str, "", "no effect: no metric is hidden", "VERSION"
    ),
    "proxy-mode": ProxyFlag("mode", str, "nftables", "mode of the proxy; only nftables is implemented", "MODE"),
    "masquerade-all": ProxyFlag(
        "nftables.masqueradeAll", boolean, "false", "masquerade all traffic to cluster IPs", "BOOL"
    ),
    "iptables-masquerade-bit": ProxyFlag("iptables.masqueradeBit", whole_number, "14", _IPTABLES, "N"),
    "iptables-localhost-nodeports": ProxyFlag("iptables.localhostNodePorts", boolean, "true", _IPTABLES, "BOOL"),
    "iptables-sync-period": ProxyFlag("nftables.syncPeriod", duration_text, "30s", _PERIOD, "DURATION"),
    "iptables-min-sync-period": ProxyFlag(
        "nftables.minSyncPeriod", duration_text, "1s", "least time between two syncs", "DURATION"
    ),
    "ipvs-sync-period": ProxyFlag("ipvs.syncPeriod", duration_text, "30s", _IPVS, "DURATION"),
    "ipvs-min-sync-period": ProxyFlag("ipvs.minSyncPeriod", duration_text, "1s", _IPVS, "DURATION"),
    "ipvs-scheduler": ProxyFlag("ipvs.scheduler", str, "", _IPVS, "NAME"),
    "ipvs-exclude-cidrs": ProxyFlag("ipvs.excludeCIDRs", comma_separated, "", _IPVS, "CIDRS"),
    "ipvs-strict-arp": ProxyFlag("ipvs.strictARP", boolean, "false", _IPVS, "BOOL"),
    "ipvs-tcp-timeout": ProxyFlag("ipvs.tcpTimeout", duration_text, "0s", _IPVS, "DURATION"),
    "ipvs-tcpfin-timeout": ProxyFlag("ipvs.tcpFinTimeout", duration_text, "0s", _IPVS, "DURATION"),
    "ipvs-udp-timeout": ProxyFlag("ipvs.udpTimeout", duration_text, "0s", _IPVS, "DURATION"),
    "detect-local-mode": ProxyFlag(
        "detectLocalMode",
        str,
        "ClusterCIDR",
        "how traffic of the node's pods is detected: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
        "MODE",
    ),
    "pod-bridge-interface": ProxyFlag(
        "detectLocal.bridgeInterface", str, "", "bridge of the node's pods, for BridgeInterface", "NAME"
    ),
    "pod-interface-name-prefix": ProxyFlag(
        "detectLocal.interfaceNamePrefix", str, "", "prefix of the pods' interfaces, for InterfaceNamePrefix", "PREFIX"
    ),
    "cluster-cidr": ProxyFlag(
        "clusterCIDR", str, "", "network of all pods, or one of each IP family, for ClusterCIDR", "CIDRS"
    ),
    "nodeport-addresses": ProxyFlag(
        "nodePortAddresses",
        comma_separated,
        "primary",
        "networks of node IPs that accept node ports, and the keywords primary, localhost and all",
        "CIDRS",
    ),
    "oom-score-adj": ProxyFlag("oomScoreAdj", whole_number, "-999", "OOM score of the process, -1000 to 1000", "N"),
    "conntrack-max-per-core": ProxyFlag(
        "conntrack.maxPerCore",
        whole_number,
        "32768",
        "largest number of tracked connections per CPU; 0 leaves the limit as it is",
        "N",
    ),
    "conntrack-min": ProxyFlag(
        "conntrack.min", whole_number, "131072", "least limit of tracked connections, if there is one per CPU", "N"
    ),
    "conntrack-tcp-timeout-established": ProxyFlag(
        "conntrack.tcpEstablishedTimeout",
        duration_text,
        "24h0m0s",
        "timeout of idle TCP connections; 0 leaves it as it is",
        "DURATION",
    ),
    "conntrack-tcp-timeout-close-wait": ProxyFlag(
        "conntrack.tcpCloseWaitTimeout",
        duration_text,
        "1h0m0s",
        "timeout of TCP connections in the state CLOSE_WAIT",
        "DURATION",
    ),
    "conntrack-tcp-be-liberal": ProxyFlag(
        "conntrack.tcpBeLiberal", boolean, "false", "accept TCP packets outside of the window", "BOOL"
    ),
    "conntrack-udp-timeout": ProxyFlag(
        "conntrack.udpTimeout", duration_text, "0s", "timeout of UDP flows without a reply", "DURATION"
    ),
    "conntrack-udp-timeout-stream": ProxyFlag(
        "conntrack.udpStreamTimeout", duration_text, "0s", "timeout of UDP flows with replies", "DURATION"
    ),
    "config-sync-period": ProxyFlag(
        "configSyncPeriod", duration_text, "15m0s", "time between two resyncs of the informers", "DURATION"
    ),
}
# Flags of fields that nothing reads.
NO_EFFECT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("iptables-masquerade-bit", "iptables-localhost-nodeports"), "it is of the mode iptables"),
    **{name: "it is of the mode ipvs" for name in CONFIG_FLAGS if name.startswith("ipvs-")},
    "kube-api-content-type": "requests to the API server are JSON",
    "profiling": "there are no Go profiles; use py-spy",
    "show-hidden-metrics-for-version": "no metric is hidden",
}
# Flags of the log, which also apply with a file.
LOG_FLAGS: Final[Mapping[str, ProxyFlag]] = {
    "logging-format": ProxyFlag("logging.format", str, "text", "format of the log: text (klog) or json", "FORMAT"),
    "v": ProxyFlag(
        "logging.verbosity", whole_number, "0", "verbosity of the log: 2 shows progress, 4 shows details", "LEVEL"
    ),
}


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags; those that are not given leave no value."""
    for name, flag in {**CONFIG_FLAGS, **LOG_FLAGS}.items():
        options: dict[str, Any] = {
            "dest": _dest(name),
            "type": flag.parse,
            "default": argparse.SUPPRESS,
            "metavar": flag.metavar,
            "help": f"{flag.help} (default: {flag.default})" if flag.default else flag.help,
        }
        if flag.parse is boolean:
            options |= {"nargs": "?", "const": True}
        parser.add_argument(*(("-v", "--v") if name == "v" else (f"--{name}",)), **options)


def given_values(
    options: argparse.Namespace, flags: Mapping[str, ProxyFlag] = CONFIG_FLAGS
) -> dict[tuple[str, ...], Any]:
    """Return the values of flags that were given, by the path of their field."""
    said = vars(options)
    return {tuple(flag.path.split(".")): said[_dest(name)] for name, flag in flags.items() if _dest(name) in said}


def given_names(options: argparse.Namespace) -> list[str]:
    """Return the names of the given flags that set fields."""
    said = vars(options)
    return [name for name in CONFIG_FLAGS if _dest(name) in said]


def _dest(name: str) -> str:
    return name.replace("-", "_")
