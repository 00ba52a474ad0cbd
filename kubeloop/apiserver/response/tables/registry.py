# SPDX-License-Identifier: Apache-2.0
"""Table of printers by group and kind; kinds without a printer show name and creation time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeloop.apiserver.response.tables import (
    autoscaling,
    core,
    devices,
    events,
    evictions,
    extensions,
    networking,
    pods,
    scheduling,
    security,
    storage,
    workloads,
)
from kubeloop.apiserver.response.tables.model import Printer

if TYPE_CHECKING:
    from kubeloop.api.kinds import Resource

_ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"
_NETWORKING = "networking.k8s.io"

PRINTERS: dict[tuple[str, str], Printer] = {
    ("", "ComponentStatus"): core.COMPONENT_STATUS,
    ("", "ConfigMap"): core.CONFIG_MAP,
    ("", "Endpoints"): networking.ENDPOINTS,
    ("", "Event"): events.CORE_EVENT,
    ("", "Namespace"): core.NAMESPACE,
    ("", "Node"): core.NODE,
    ("", "PersistentVolume"): storage.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): storage.PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): pods.POD,
    ("", "PodTemplate"): pods.POD_TEMPLATE,
    ("", "ReplicationController"): workloads.REPLICATION_CONTROLLER,
    ("", "ResourceQuota"): core.RESOURCE_QUOTA,
    ("", "Secret"): core.SECRET,
    ("", "Service"): networking.SERVICE,
    ("", "ServiceAccount"): core.NAME_AND_AGE,
    (_ADMISSION, "MutatingAdmissionPolicy"): extensions.MUTATING_ADMISSION_POLICY,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): extensions.ADMISSION_POLICY_BINDING,
    (_ADMISSION, "MutatingWebhookConfiguration"): extensions.WEBHOOK_CONFIGURATION,
    (_ADMISSION, "ValidatingAdmissionPolicy"): extensions.VALIDATING_ADMISSION_POLICY,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): extensions.ADMISSION_POLICY_BINDING,
    (_ADMISSION, "ValidatingWebhookConfiguration"): extensions.WEBHOOK_CONFIGURATION,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): extensions.CUSTOM_RESOURCE_DEFINITION,
    ("apiregistration.k8s.io", "APIService"): extensions.API_SERVICE,
    ("apps", "ControllerRevision"): workloads.CONTROLLER_REVISION,
    ("apps", "DaemonSet"): workloads.DAEMON_SET,
    ("apps", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "StatefulSet"): workloads.STATEFUL_SET,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscaling.HORIZONTAL_POD_AUTOSCALER,
    ("autoscaling", "Scale"): autoscaling.SCALE,
    ("batch", "CronJob"): workloads.CRON_JOB,
    ("batch", "Job"): workloads.JOB,
    ("certificates.k8s.io", "CertificateSigningRequest"): security.CERTIFICATE_SIGNING_REQUEST,
    ("certificates.k8s.io", "ClusterTrustBundle"): security.CLUSTER_TRUST_BUNDLE,
    ("certificates.k8s.io", "PodCertificateRequest"): security.POD_CERTIFICATE_REQUEST,
    ("coordination.k8s.io", "Lease"): core.LEASE,
    ("coordination.k8s.io", "LeaseCandidate"): scheduling.LEASE_CANDIDATE,
    ("discovery.k8s.io", "EndpointSlice"): networking.ENDPOINT_SLICE,
    ("events.k8s.io", "Event"): events.EVENT,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): extensions.FLOW_SCHEMA,
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): extensions.PRIORITY_LEVEL_CONFIGURATION,
    ("internal.apiserver.k8s.io", "StorageVersion"): scheduling.STORAGE_VERSION,
    ("lifecycle.k8s.io", "Eviction"): evictions.EVICTION,
    ("lifecycle.k8s.io", "EvictionRequest"): evictions.EVICTION_REQUEST,
    (_NETWORKING, "IPAddress"): networking.IP_ADDRESS,
    (_NETWORKING, "Ingress"): networking.INGRESS,
    (_NETWORKING, "IngressClass"): networking.INGRESS_CLASS,
    (_NETWORKING, "NetworkPolicy"): networking.NETWORK_POLICY,
    (_NETWORKING, "ServiceCIDR"): networking.SERVICE_CIDR,
    ("node.k8s.io", "RuntimeClass"): core.RUNTIME_CLASS,
    ("policy", "PodDisruptionBudget"): workloads.DISRUPTION_BUDGET,
    (_RBAC, "ClusterRoleBinding"): security.ROLE_BINDING,
    (_RBAC, "RoleBinding"): security.ROLE_BINDING,
    ("resource.k8s.io", "DeviceClass"): core.NAME_AND_AGE,
    ("resource.k8s.io", "DeviceTaintRule"): devices.DEVICE_TAINT_RULE,
    ("resource.k8s.io", "ResourceClaim"): devices.RESOURCE_CLAIM,
    ("resource.k8s.io", "ResourceClaimTemplate"): core.NAME_AND_AGE,
    ("resource.k8s.io", "ResourcePoolStatusRequest"): scheduling.POOL_STATUS_REQUEST,
    ("resource.k8s.io", "ResourceSlice"): devices.RESOURCE_SLICE,
    ("scheduling.k8s.io", "CompositePodGroup"): scheduling.COMPOSITE_POD_GROUP,
    ("scheduling.k8s.io", "PodGroup"): scheduling.POD_GROUP,
    ("scheduling.k8s.io", "PriorityClass"): core.PRIORITY_CLASS,
    ("scheduling.k8s.io", "Workload"): core.NAME_AND_AGE,
    (_STORAGE, "CSIDriver"): storage.CSI_DRIVER,
    (_STORAGE, "CSINode"): storage.CSI_NODE,
    (_STORAGE, "StorageClass"): storage.STORAGE_CLASS,
    (_STORAGE, "VolumeAttachment"): storage.VOLUME_ATTACHMENT,
    (_STORAGE, "VolumeAttributesClass"): storage.VOLUME_ATTRIBUTES_CLASS,
    ("storagemigration.k8s.io", "StorageVersionMigration"): extensions.STORAGE_VERSION_MIGRATION,
}


def printer_of(resource: Resource | None) -> Printer:
    """Return the printer of a resource, or the default one."""
    if resource is not None and resource.is_custom:
        return _printer_of_custom(resource)
    return PRINTERS.get((resource.group, resource.kind), extensions.DEFAULT) if resource else extensions.DEFAULT


def _printer_of_custom(resource: Any) -> Printer:
    from kubeloop.apiserver.apiextensions.printer_columns import (
        printer_of_columns,  # imported only if there are custom resources
    )

    return printer_of_columns(resource.columns)
