# SPDX-License-Identifier: Apache-2.0
"""Groups of flags in the help of large commands, with the titles that upstream's programs have for them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Final, NamedTuple


class FlagGroup(NamedTuple):
    """Title of a group, and a pattern that matches the names of its flags."""

    title: str
    pattern: str


_LARGE: Final = 12  # flags; a command with fewer has one group
_OTHER: Final = FlagGroup("Other flags", ".*")
_SERVING: Final = FlagGroup(
    "Secure serving flags",
    "tls-.*|cert-dir|bind-address|secure-port|permit-.*|.*http2-.*|strict-transport-.*|webhook-.*",
)
_ACCESS: Final = (
    FlagGroup(
        "Authentication flags",
        "authentication-.*|anonymous-auth|enable-bootstrap-token-auth|token-auth-file|oidc-.*|api-audiences"
        "|client-ca-file|requestheader-.*|service-account-(?!private).*",
    ),
    FlagGroup("Authorization flags", "authorization-.*"),
)
_LOGS: Final = FlagGroup("Logs flags", "log-.*|logging-format|v|vmodule")
_SERVER: Final = (
    FlagGroup("Storage flags", "store|etcd-.*|encryption-.*|event-ttl"),
    _SERVING,
    *_ACCESS,
    FlagGroup("Admission flags", ".*admission.*|allow-privileged|default-.*-toleration-seconds"),
    FlagGroup("Auditing flags", "audit-.*"),
    FlagGroup("API enablement and feature flags", "runtime-config|feature-gates"),
    FlagGroup(
        "Request flags",
        ".*request.*|enable-priority-and-fairness|goaway-chance|cors-.*|.*-grace-period|shutdown-.*|chaos-plan",
    ),
    FlagGroup(
        "Network flags", "advertise-address|external-hostname|service-.*-range|endpoint-.*|kubernetes-service-.*"
    ),
    FlagGroup("Kubelet client flags", "kubelet-.*"),
    FlagGroup("Aggregation flags", "proxy-client-.*|enable-aggregator-routing"),
)
_UP: Final = (
    FlagGroup("Cluster flags", "name|detach|output|data-dir|ephemeral|store|kubeconfig|switch-context"),
    FlagGroup("Port flags", "port|bind-address|.*-port"),
    FlagGroup("Node flags", "nodes|node-.*|kubelet-.*"),
    FlagGroup("Cloud and storage class flags", "cloud-.*|.*storage-class"),
    *_SERVER,
    _LOGS,
)
_MANAGER: Final = (
    FlagGroup("Connection flags", "kubeconfig|master|config|kube-api-.*"),
    FlagGroup("Leader election flags", "leader-.*|enable-leader-migration"),
    _SERVING,
    *_ACCESS,
    FlagGroup(
        "Generic flags",
        "controllers|load|controller-.*|feature-gates|emulated-version|min-.*|use-service-account-credentials"
        "|write-config-to|pod-max-.*|profiling|contention-profiling",
    ),
    FlagGroup("Metrics flags", ".*metric.*"),
    _LOGS,
    FlagGroup("Cloud flags", ".*cloud.*|cluster-name|webhooks|node-sync-.*|node-status-.*|route-.*"),
    FlagGroup("Certificate and token flags", "cluster-signing-.*|root-ca-file|.*service-?account.*"),
    FlagGroup("Node flags", "node-.*|.*-eviction-.*|.*-threshold|.*cidr.*|service-cluster-ip-range|.*-node-.*"),
    FlagGroup("Volume flags", "attach-.*|.*detach.*|pv.*|.*volume.*|.*-provision.*"),
    FlagGroup("Workload and service flags", "concurrent-.*|.*endpoint.*|horizontal-.*|.*-period|enable-garbage-.*"),
)
_KUBELET: Final = (
    FlagGroup(
        "Node flags",
        "nodes|node-.*|hostname-override|register-.*|cloud-provider|provider-id|config|config-dir|feature-gates|root-dir",
    ),
    FlagGroup("Connection flags", ".*kubeconfig|kube-api-.*|event-.*|rotate-certificates"),
    FlagGroup(
        "Serving flags",
        "address|.*port|healthz-.*|cert-dir|tls-.*|rotate-server-certificates|enable-server|enable-debugging-handlers"
        "|streaming-.*|contention-profiling",
    ),
    *_ACCESS,
    FlagGroup(
        "Pod flags",
        "pod-.*|pods-.*|max-pods|manifest-.*|.*-frequency|cluster-.*|resolv-conf|hairpin-mode|.*sysctls|seccomp-.*",
    ),
    FlagGroup("Container runtime flags", ".*-endpoint|runtime-.*|container-.*|.*image.*|registry-.*"),
    FlagGroup("Eviction flags", "eviction-.*|kernel-memcg-.*"),
    FlagGroup(
        "Resource flags",
        ".*cgroup.*|cpu-.*|memory-.*|topology-.*|.*reserved.*|enforce-.*|fail-.*|oom-.*|max-open-files|protect-.*|local-.*",
    ),
    _LOGS,
)
_PROXY: Final = (
    FlagGroup(
        "Node flags", "config|hostname-override|bind-address|oom-score-adj|cleanup|init-only|write-config-to|.*-mode"
    ),
    FlagGroup("Connection flags", "kubeconfig|master|kube-api-.*|config-sync-period"),
    FlagGroup("Serving flags", "healthz-.*|metrics-.*|bind-address-hard-fail|profiling|show-hidden-.*"),
    FlagGroup("Traffic flags", "masquerade-all|cluster-cidr|nodeport-addresses|pod-.*|iptables-(min-)?sync-period"),
    FlagGroup("Connection tracking flags", "conntrack-.*"),
    _LOGS,
)
_GROUPS: Final[dict[str, Sequence[FlagGroup]]] = {
    "up": _UP,
    "apiserver": (FlagGroup("Access flags", "kubeconfig"), *_SERVER, _LOGS),
    "controller-manager": _MANAGER,
    "cloud-controller-manager": _MANAGER,
    "scheduler": _MANAGER,
    "kubelet": _KUBELET,
    "proxy": _PROXY,
}


def group_flags(command: str, parser: argparse.ArgumentParser) -> None:
    """Distribute the flags of a large command among groups; the help shows each under its title."""
    flags = parser._optionals._group_actions
    groups = _GROUPS.get(command, ())
    if len(flags) <= _LARGE or not groups:
        return
    for title, pattern in (*groups, _OTHER):
        chosen = [one for one in flags if _is_groupable(one) and re.fullmatch(pattern, one.option_strings[-1][2:])]
        if chosen:
            section = parser.add_argument_group(title)
            section._group_actions.extend(chosen)
            flags[:] = [one for one in flags if one not in chosen]


def _is_groupable(flag: argparse.Action) -> bool:
    """Return False for flags that belong to the program, and for those that the help leaves out."""
    return flag.help != argparse.SUPPRESS and flag.dest not in ("help", "version")
