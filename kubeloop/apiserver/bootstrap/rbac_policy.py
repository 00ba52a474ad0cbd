# SPDX-License-Identifier: Apache-2.0
"""Default RBAC roles and bindings of every cluster."""

from __future__ import annotations

from collections.abc import Iterator

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.meta_v1 import LabelSelector, ObjectMeta
from kubeloop.api.generated.rbac_v1 import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from kubeloop.apiserver.bootstrap.cluster_roles import CLUSTER_RULES
from kubeloop.apiserver.bootstrap.controller_roles import CONTROLLER_RULES
from kubeloop.apiserver.bootstrap.gated_roles import with_cluster_rules, with_controller_rules
from kubeloop.apiserver.bootstrap.policy_notation import EVENTS, READ, parse_rules

_GROUP = "rbac.authorization.k8s.io"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_CONTROLLER = "system:controller:"

# Aggregated roles, composed of roles with their label.
_AGGREGATED = ("admin", "edit", "view")
_AGGREGATED_TO = {
    "edit": "admin",
    "view": "edit",
    "system:aggregate-to-admin": "admin",
    "system:aggregate-to-edit": "edit",
    "system:aggregate-to-view": "view",
}

# Subjects of the cluster role of the same name: user:, group: or, in kube-system, account:.
_BINDINGS = {
    "cluster-admin": "group:system:masters",
    "system:basic-user": "group:system:authenticated",
    "system:cluster-trust-bundle-discovery": "group:system:serviceaccounts",
    "system:discovery": "group:system:authenticated",
    "system:kube-controller-manager": "user:system:kube-controller-manager",
    "system:kube-dns": "account:kube-dns",
    "system:kube-scheduler": "user:system:kube-scheduler",
    "system:monitoring": "group:system:monitoring",
    "system:node": "",  # the node authorizer authorizes nodes; upstream's binding has no subjects either
    "system:node-proxier": "user:system:kube-proxy",
    "system:public-info-viewer": "group:system:authenticated group:system:unauthenticated",
    "system:service-account-issuer-discovery": "group:system:serviceaccounts",
    "system:volume-scheduler": "user:system:kube-scheduler",
}

_LEADER_LOCKING = tuple(
    f"create get list update watch: {resource} @coordination.k8s.io" for resource in ("leases", "leasecandidates")
)
_ROLES = {
    ("kube-public", "system:controller:bootstrap-signer"): (
        f"{READ}: configmaps",
        "update: configmaps =cluster-info",
        EVENTS,
    ),
    ("kube-system", "extension-apiserver-authentication-reader"): (
        f"{READ}: configmaps =extension-apiserver-authentication",
    ),
    ("kube-system", "system::leader-locking-kube-controller-manager"): _LEADER_LOCKING,
    ("kube-system", "system::leader-locking-kube-scheduler"): _LEADER_LOCKING,
    ("kube-system", "system:controller:bootstrap-signer"): (f"{READ}: secrets",),
    ("kube-system", "system:controller:cloud-provider"): ("create get list watch: configmaps",),
    ("kube-system", "system:controller:token-cleaner"): ("delete get list watch: secrets", EVENTS),
}
# Namespace and name of each binding to its role and subjects.
_ROLE_BINDINGS = {
    ("kube-public", "system:controller:bootstrap-signer"): (
        "system:controller:bootstrap-signer",
        "account:bootstrap-signer",
    ),
    ("kube-system", "system::extension-apiserver-authentication-reader"): (
        "extension-apiserver-authentication-reader",
        "user:system:kube-controller-manager user:system:kube-scheduler",
    ),
    ("kube-system", "system::leader-locking-kube-controller-manager"): (
        "system::leader-locking-kube-controller-manager",
        "user:system:kube-controller-manager account:kube-controller-manager account:leader-election-controller",
    ),
    ("kube-system", "system::leader-locking-kube-scheduler"): (
        "system::leader-locking-kube-scheduler",
        "user:system:kube-scheduler account:kube-scheduler",
    ),
    ("kube-system", "system:controller:bootstrap-signer"): (
        "system:controller:bootstrap-signer",
        "account:bootstrap-signer",
    ),
    ("kube-system", "system:controller:cloud-provider"): (
        "system:controller:cloud-provider",
        "account:cloud-provider",
    ),
    ("kube-system", "system:controller:token-cleaner"): ("system:controller:token-cleaner", "account:token-cleaner"),
}


def cluster_roles(features: Features = DEFAULT_FEATURES) -> Iterator[ClusterRole]:
    """Yield the default ClusterRoles, including the aggregated ones."""
    for name, lines in with_cluster_rules(CLUSTER_RULES, features).items():
        yield ClusterRole(metadata=_meta(name, _labels_of(name)), rules=parse_rules(lines))
    for name in _AGGREGATED:
        selector = LabelSelector(match_labels={_AGGREGATE + name: "true"})
        yield ClusterRole(
            metadata=_meta(name, _labels_of(name)), aggregation_rule=AggregationRule(cluster_role_selectors=(selector,))
        )
    for name, lines in with_controller_rules(CONTROLLER_RULES, features).items():
        yield ClusterRole(metadata=_meta(_CONTROLLER + name), rules=parse_rules(lines))


def cluster_role_bindings(features: Features = DEFAULT_FEATURES) -> Iterator[ClusterRoleBinding]:
    """Yield the default ClusterRoleBindings."""
    for name, who in _BINDINGS.items():
        yield _cluster_binding(name, who)
    for name in with_controller_rules(CONTROLLER_RULES, features):
        yield _cluster_binding(_CONTROLLER + name, "account:" + name)


def kubelet_client_binding(user: str) -> ClusterRoleBinding:
    """Return the binding that lets this server's own user call kubelets."""
    role = RoleRef(api_group=_GROUP, kind="ClusterRole", name="system:kubelet-api-admin")
    return ClusterRoleBinding(metadata=_meta(f"kubeloop:{user}"), role_ref=role, subjects=_subjects(f"user:{user}"))


def roles() -> Iterator[Role]:
    """Yield the default Roles."""
    for (namespace, name), lines in _ROLES.items():
        yield Role(metadata=_meta(name, namespace=namespace), rules=parse_rules(lines))


def role_bindings() -> Iterator[RoleBinding]:
    """Yield the default RoleBindings."""
    for (namespace, name), (role, who) in _ROLE_BINDINGS.items():
        yield RoleBinding(
            metadata=_meta(name, namespace=namespace),
            role_ref=RoleRef(api_group=_GROUP, kind="Role", name=role),
            subjects=_subjects(who),
        )


def _cluster_binding(name: str, who: str) -> ClusterRoleBinding:
    role = RoleRef(api_group=_GROUP, kind="ClusterRole", name=name)
    return ClusterRoleBinding(metadata=_meta(name), role_ref=role, subjects=_subjects(who))


def _subjects(who: str) -> tuple[Subject, ...]:
    return tuple(_subject(*one.split(":", 1)) for one in who.split())


def _subject(kind: str, name: str) -> Subject:
    if kind == "account":
        return Subject(kind="ServiceAccount", name=name, namespace="kube-system")
    return Subject(kind=kind.capitalize(), api_group=_GROUP, name=name)


def _labels_of(name: str) -> dict[str, str]:
    target = _AGGREGATED_TO.get(name)
    return {**_LABELS, _AGGREGATE + target: "true"} if target else _LABELS


def _meta(name: str, labels: dict[str, str] = _LABELS, namespace: str = "") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, labels=labels, annotations=_ANNOTATIONS)
