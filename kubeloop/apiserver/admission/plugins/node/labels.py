# SPDX-License-Identifier: Apache-2.0
"""Node labels that a kubelet may not set on its own node, because they keep workloads away from it."""

from __future__ import annotations

from collections.abc import Mapping

_ALLOWED = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_ALLOWED_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")


def forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """Return the changed labels that a node may neither add nor change nor remove, sorted."""
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return sorted(key for key in changed if _is_forbidden(key))


def _is_forbidden(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if not any(_within(domain, one) for one in _KUBERNETES_DOMAINS):
        return False
    return key not in _ALLOWED and not any(_within(domain, one) for one in _ALLOWED_DOMAINS)


def _within(domain: str, suffix: str) -> bool:
    return domain == suffix or domain.endswith("." + suffix)
