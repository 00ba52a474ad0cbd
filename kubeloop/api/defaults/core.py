"""Defaults of the smaller core kinds: namespaces, nodes, secrets, limits, quotas, replication controllers."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.absence import null_if_empty
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
    """Labelled with its own name, so that selectors can name a namespace."""
    metadata = namespace.metadata
    # A generated name is not known yet; the strategy adds the label once it is.
    if metadata.name and metadata.labels.get(_NAMESPACE_NAME_LABEL) != metadata.name:
        force_setattr(metadata, "labels", {**metadata.labels, _NAMESPACE_NAME_LABEL: metadata.name})
    if not namespace.status.phase:
        force_setattr(namespace.status, "phase", "Active")


def default_node(node: Node) -> None:
    status = node.status
    if status.capacity and not status.allocatable:
        force_setattr(status, "allocatable", dict(status.capacity))
    round_amounts(status, "capacity", "allocatable")
    _default_pod_cidrs(node.spec)


def default_secret(secret: Secret) -> None:
    """Plain strings are a convenience of writing: they are kept, and read, as data."""
    if not secret.type:
        force_setattr(secret, "type", "Opaque")
    if secret.string_data:
        encoded = {key: value.encode() for key, value in secret.string_data.items()}
        force_setattr(secret, "data", {**secret.data, **encoded})
        force_setattr(secret, "string_data", {})


def default_limit_range(limit_range: LimitRange) -> None:
    null_if_empty(limit_range.spec, "limits")
    for item in limit_range.spec.limits or ():
        if item.type == "Container":
            _default_container_limits(item)
        round_amounts(item, "max", "min", "default", "default_request", "max_limit_request_ratio")


def default_resource_quota(quota: ResourceQuota) -> None:
    round_amounts(quota.spec, "hard")
    round_amounts(quota.status, "hard", "used")


def default_replication_controller(controller: ReplicationController) -> None:
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
    # One field in two spellings; where they differ the older, single one counts.
    if spec.pod_cidr:
        if not spec.pod_cidrs or spec.pod_cidrs[0] != spec.pod_cidr:
            force_setattr(spec, "pod_cidrs", (spec.pod_cidr,))
    elif spec.pod_cidrs:
        force_setattr(spec, "pod_cidr", spec.pod_cidrs[0])


def _default_container_limits(item: LimitRangeItem) -> None:
    """The default limit follows the maximum; the default request follows the limit, or else the minimum."""
    limits = {**item.max, **item.default}
    if limits != item.default:
        force_setattr(item, "default", limits)
    requests = {**item.min, **limits, **item.default_request}
    if requests != item.default_request:
        force_setattr(item, "default_request", requests)
