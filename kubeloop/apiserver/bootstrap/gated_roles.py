# SPDX-License-Identifier: Apache-2.0
"""RBAC rules that feature gates add to roles, and roles of controllers that feature gates enable."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.api.features.gates import Features
from kubeloop.apiserver.bootstrap.policy_notation import EVENTS, READ, WRITE

Rules = Mapping[str, tuple[str, ...]]

_SCHEDULING = "@scheduling.k8s.io"
_DEVICES = "@resource.k8s.io"
_LIFECYCLE = "@lifecycle.k8s.io"
_INTERNAL = "@internal.apiserver.k8s.io"

_CLUSTER_RULES: Mapping[str, Rules] = {
    "GenericWorkload": {
        "system:aggregate-to-view": (f"{READ}: podgroups podgroups/status workloads {_SCHEDULING}",),
        "system:aggregate-to-edit": (f"{WRITE}: podgroups workloads {_SCHEDULING}",),
        "system:kube-scheduler": (
            f"{READ}: podgroups {_SCHEDULING}",
            f"patch update: podgroups/status {_SCHEDULING}",
        ),
    },
    "CompositePodGroup": {
        "system:aggregate-to-view": (f"{READ}: compositepodgroups compositepodgroups/status {_SCHEDULING}",),
        "system:aggregate-to-edit": (f"{WRITE}: compositepodgroups {_SCHEDULING}",),
        "system:kube-scheduler": (
            f"{READ}: compositepodgroups {_SCHEDULING}",
            f"patch update: compositepodgroups/status {_SCHEDULING}",
        ),
    },
    "EvictionRequestAPI": {
        "system:aggregate-to-view": (f"{READ}: evictionrequests evictions {_LIFECYCLE}",),
        "system:aggregate-to-edit": (f"{WRITE}: evictionrequests {_LIFECYCLE}",),
    },
}
_CONTROLLER_RULES: Mapping[str, Rules] = {
    "DRAWorkloadResourceClaims": {
        "resource-claim-controller": (
            f"{READ}: podgroups {_SCHEDULING}",
            f"patch update: podgroups/status {_SCHEDULING}",
        ),
    },
    "DRAResourcePoolStatus": {
        "resourcepoolstatusrequest-controller": (
            f"delete get list watch: resourcepoolstatusrequests {_DEVICES}",
            f"patch update: resourcepoolstatusrequests/status {_DEVICES}",
            f"{READ}: resourceslices {_DEVICES}",
            f"{READ}: resourceclaims {_DEVICES}",
            f"{READ}: devicetaintrules {_DEVICES}",
            EVENTS,
        ),
    },
    "StorageVersionAPI": {
        "storage-version-garbage-collector": (
            f"{READ}: leases @coordination.k8s.io",
            f"delete get list patch update watch: storageversions {_INTERNAL}",
            f"get patch update: storageversions/status {_INTERNAL}",
        ),
    },
    "WorkloadWithJob": {
        "job-controller": (f"create get list patch update watch: podgroups workloads {_SCHEDULING}",),
    },
    "GenericWorkload": {
        "podgroup-protection-controller": (f"get list update watch: podgroups {_SCHEDULING}", f"{READ}: pods"),
    },
}


def with_cluster_rules(rules: Rules, features: Features) -> Rules:
    """Return the rules of cluster roles, extended by enabled features."""
    return _extended(rules, _CLUSTER_RULES, features)


def with_controller_rules(rules: Rules, features: Features) -> Rules:
    """Return the rules of controller roles, extended by enabled features."""
    return _extended(rules, _CONTROLLER_RULES, features)


def _extended(rules: Rules, gated: Mapping[str, Rules], features: Features) -> Rules:
    found = dict(rules)
    for gate, added in gated.items():
        if features.is_enabled(gate):
            found |= {name: (*found.get(name, ()), *lines) for name, lines in added.items()}
    return found
