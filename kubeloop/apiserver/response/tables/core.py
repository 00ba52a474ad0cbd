# SPDX-License-Identifier: Apache-2.0
"""Printers of namespaces, nodes, configuration, quotas, component statuses, and other small core kinds."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from kubeloop.apiserver.response.tables.model import (
    AGE,
    NAME,
    Cells,
    Printer,
    boolean_column,
    column,
    integer_column,
    wide_column,
)
from kubeloop.apiserver.response.tables.text import NONE, UNKNOWN, format_age

if TYPE_CHECKING:
    from kubeloop.api.generated.coordination_v1 import Lease
    from kubeloop.api.generated.core_v1 import ComponentStatus, ConfigMap, Namespace, Node, ResourceQuota, Secret
    from kubeloop.api.generated.node_v1 import RuntimeClass
    from kubeloop.api.generated.scheduling_v1 import PriorityClass

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def name_and_age(obj: Any, now: datetime) -> Cells:
    """Return the cells of a kind that shows only name and age."""
    return [obj.metadata.name, format_age(obj, now)]


def _namespace_cells(namespace: Namespace, now: datetime) -> Cells:
    return [namespace.metadata.name, namespace.status.phase, format_age(namespace, now)]


def _node_status(node: Node) -> str:
    # Of a condition type that occurs twice, the last one counts.
    ready = {condition.type: condition.status for condition in node.status.conditions}.get("Ready")
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if node.spec.unschedulable else status


def _node_roles(node: Node) -> str:
    labels = node.metadata.labels
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted((roles | {labels.get(_ROLE_LABEL, "")}) - {""})) or NONE


def _node_address(node: Node, type: str) -> str:
    return next((address.address for address in node.status.addresses if address.type == type), NONE)


def _node_cells(node: Node, now: datetime) -> Cells:
    info = node.status.node_info
    return [
        node.metadata.name,
        _node_status(node),
        _node_roles(node),
        format_age(node, now),
        info.kubelet_version,
        _node_address(node, "InternalIP"),
        _node_address(node, "ExternalIP"),
        info.os_image or UNKNOWN,
        (info.kernel_version or UNKNOWN) + (f" ({info.architecture})" if info.architecture else ""),
        info.container_runtime_version or UNKNOWN,
    ]


def _secret_cells(secret: Secret, now: datetime) -> Cells:
    return [secret.metadata.name, secret.type, len(secret.data), format_age(secret, now)]


def _config_map_cells(config_map: ConfigMap, now: datetime) -> Cells:
    return [config_map.metadata.name, len(config_map.data) + len(config_map.binary_data), format_age(config_map, now)]


def _resource_quota_cells(quota: ResourceQuota, now: datetime) -> Cells:
    requests: list[str] = []
    limits: list[str] = []
    for resource, hard in sorted(quota.status.hard.items()):
        column_of = limits if resource.startswith("limits.") else requests
        column_of.append(f"{resource}: {quota.status.used.get(resource, '0')}/{hard}")
    return [quota.metadata.name, ", ".join(requests), ", ".join(limits), format_age(quota, now)]


def _component_status_cells(component: ComponentStatus, _now: datetime) -> Cells:
    healthy = next((condition for condition in component.conditions if condition.type == "Healthy"), None)
    if healthy is None:
        return [component.metadata.name, "Unknown", "", ""]
    status = "Healthy" if healthy.status == "True" else "Unhealthy"
    return [component.metadata.name, status, healthy.message, healthy.error]


def _lease_cells(lease: Lease, now: datetime) -> Cells:
    return [lease.metadata.name, lease.spec.holder_identity or "", format_age(lease, now)]


def _priority_class_cells(priority: PriorityClass, now: datetime) -> Cells:
    return [
        priority.metadata.name,
        priority.value,
        priority.global_default,
        format_age(priority, now),
        priority.preemption_policy or "",
    ]


def _runtime_class_cells(runtime: RuntimeClass, now: datetime) -> Cells:
    return [runtime.metadata.name, runtime.handler, format_age(runtime, now)]


NAME_AND_AGE = Printer(columns=(NAME, AGE), cells=name_and_age)
NAMESPACE = Printer(columns=(NAME, column("Status", "Phase of the namespace."), AGE), cells=_namespace_cells)
NODE = Printer(
    columns=(
        NAME,
        column("Status", "Readiness, and whether the node is schedulable."),
        column("Roles", "Roles from the node's labels."),
        AGE,
        column("Version", "Kubelet version."),
        wide_column("Internal-IP", "Internal IP address."),
        wide_column("External-IP", "External IP address."),
        wide_column("OS-Image", "Operating system image."),
        wide_column("Kernel-Version", "Kernel version and architecture."),
        wide_column("Container-Runtime", "Container runtime and version."),
    ),
    cells=_node_cells,
)
SECRET = Printer(
    columns=(NAME, column("Type", "Type of the secret."), column("Data", "Number of data keys."), AGE),
    cells=_secret_cells,
)
CONFIG_MAP = Printer(columns=(NAME, column("Data", "Number of data keys."), AGE), cells=_config_map_cells)
RESOURCE_QUOTA = Printer(
    columns=(
        NAME,
        column("Request", "Used and hard amounts of requests and object counts."),
        column("Limit", "Used and hard amounts of limits."),
        AGE,
    ),
    cells=_resource_quota_cells,
)
COMPONENT_STATUS = Printer(
    columns=(
        NAME,
        column("Status", "Health of the component."),
        column("Message", "Message of the health check."),
        column("Error", "Error of the health check."),
    ),
    cells=_component_status_cells,
)
LEASE = Printer(columns=(NAME, column("Holder", "Identity of the holder."), AGE), cells=_lease_cells)
PRIORITY_CLASS = Printer(
    columns=(
        NAME,
        integer_column("Value", "Priority value."),
        boolean_column("Global-Default", "True if the class applies to pods without a priority class."),
        AGE,
        column("PreemptionPolicy", "Preemption policy of the pods."),
    ),
    cells=_priority_class_cells,
)
RUNTIME_CLASS = Printer(
    columns=(NAME, column("Handler", "Handler name in the container runtime."), AGE), cells=_runtime_class_cells
)
