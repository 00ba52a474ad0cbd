# SPDX-License-Identifier: Apache-2.0
"""Defaults of the smaller core kinds: namespaces, nodes, secrets, limits, quotas, replication controllers."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.empty_lists import null_if_empty
from kubeloop.api.defaults.pods.pod import default_pod_spec
from kubeloop.api.defaults.pods.resource_amounts import round_amounts
from kubeloop.api.generated.core_v1 import (
    LimitRange,
    LimitRangeItem,
    Namespace,
    Node,
    NodeSpec,
    ReplicationController,
    ResourceQuota,
    Secret,
)

_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


def default_namespace(namespace: Namespace) -> None:
    """Set the label with the namespace's name, which selectors use."""
    metadata = namespace.metadata
    # A generated name is not known yet; the strategy adds the label once it is.
    if metadata.name and metadata.labels.get(_NAMESPACE_NAME_LABEL) != metadata.name:
        force_setattr(metadata, "labels", {**metadata.labels, _NAMESPACE_NAME_LABEL: metadata.name})
    if not namespace.status.phase:
        force_setattr(namespace.status, "phase", "Active")


def default_node(node: Node) -> None:
    """Apply the defaults of a Node."""
    status = node.status
    if status.capacity and not status.allocatable:
        force_setattr(status, "allocatable", dict(status.capacity))
    round_amounts(status, "capacity", "allocatable")
    _default_pod_cidrs(node.spec)


def default_secret(secret: Secret) -> None:
    """Apply the defaults of a Secret; stringData is write-only and becomes data."""
    if not secret.type:
        force_setattr(secret, "type", "Opaque")
    if secret.string_data:
        encoded = {key: value.encode() for key, value in secret.string_data.items()}
        force_setattr(secret, "data", {**secret.data, **encoded})
        force_setattr(secret, "string_data", {})


def default_limit_range(limit_range: LimitRange) -> None:
    """Apply the defaults of a LimitRange."""
    null_if_empty(limit_range.spec, "limits")
    for item in limit_range.spec.limits or ():
        if item.type == "Container":
            _default_container_limits(item)
        round_amounts(item, "max", "min", "default", "default_request", "max_limit_request_ratio")


def default_resource_quota(quota: ResourceQuota) -> None:
    """Round the amounts of a ResourceQuota."""
    round_amounts(quota.spec, "hard")
    round_amounts(quota.status, "hard", "used")


def default_replication_controller(controller: ReplicationController) -> None:
    """Apply the defaults of a ReplicationController."""
    spec = controller.spec
    if spec.template is not None:
        labels = spec.template.metadata.labels
        if labels and not spec.selector:
            force_setattr(spec, "selector", dict(labels))
        if labels and not controller.metadata.labels:
            force_setattr(controller.metadata, "labels", dict(labels))
        default_pod_spec(spec.template.spec)
    if spec.replicas is None:
        force_setattr(spec, "replicas", 1)


def _default_pod_cidrs(spec: NodeSpec) -> None:
    # Singular and plural form of one field; if they differ, the older singular one wins.
    if spec.pod_cidr:
        if not spec.pod_cidrs or spec.pod_cidrs[0] != spec.pod_cidr:
            force_setattr(spec, "pod_cidrs", (spec.pod_cidr,))
    elif spec.pod_cidrs:
        force_setattr(spec, "pod_cidr", spec.pod_cidrs[0])


def _default_container_limits(item: LimitRangeItem) -> None:
    """Default the limit to the maximum, and the request to the limit or else the minimum."""
    limits = {**item.max, **item.default}
    if limits != item.default:
        force_setattr(item, "default", limits)
    requests = {**item.min, **limits, **item.default_request}
    if requests != item.default_request:
        force_setattr(item, "default_request", requests)
