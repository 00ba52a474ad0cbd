# SPDX-License-Identifier: Apache-2.0
"""Versioned defaults of every served kind.

    bytes ─ decode ─▶ fresh struct ─ apply_defaults ─▶ the same struct, complete ─▶ admission, strategy, validation

Structs are frozen elsewhere, but defaulting runs on an object that was just decoded and is not shared
yet, so it sets fields in place with `codec.force_setattr`. Constant default structures are shared between objects:
later changes of a nested default must replace the struct instead of setting fields inside it.

A kind that is absent from the table has no defaults. Modules are imported when the first object of a kind arrives.
The few visible effects of upstream's version conversion (a secret's stringData becomes data,
a node's single and plural pod CIDRs) are done here too, because here there is one version per kind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

Defaulter = Callable[[Any], None]

# Generated module and struct class, to its defaulting function.
DEFAULTERS: dict[str, str] = {
    "admissionregistration_v1.MutatingAdmissionPolicy": "admissionregistration:default_policy",
    "admissionregistration_v1.MutatingAdmissionPolicyBinding": "admissionregistration:default_binding",
    "admissionregistration_v1.MutatingWebhookConfiguration": "admissionregistration:default_mutating_webhooks",
    "admissionregistration_v1.ValidatingAdmissionPolicy": "admissionregistration:default_policy",
    "admissionregistration_v1.ValidatingAdmissionPolicyBinding": "admissionregistration:default_binding",
    "admissionregistration_v1.ValidatingWebhookConfiguration": "admissionregistration:default_validating_webhooks",
    "admissionregistration_v1alpha1.MutatingAdmissionPolicy": "admissionregistration:default_policy",
    "admissionregistration_v1alpha1.MutatingAdmissionPolicyBinding": "admissionregistration:default_binding",
    "admissionregistration_v1beta1.MutatingAdmissionPolicy": "admissionregistration:default_policy",
    "admissionregistration_v1beta1.MutatingAdmissionPolicyBinding": "admissionregistration:default_binding",
    "apiextensions_v1.CustomResourceDefinition": "extension:default_custom_resource_definition",
    "apiregistration_v1.APIService": "extension:default_api_service",
    "apiserverinternal_v1alpha1.StorageVersion": "optional_resources:default_storage_version",
    "apps_v1.DaemonSet": "apps:default_daemon_set",
    "apps_v1.Deployment": "apps:default_deployment",
    "apps_v1.ReplicaSet": "apps:default_replica_set",
    "apps_v1.StatefulSet": "apps:default_stateful_set",
    "authentication_v1.TokenRequest": "security:default_token_request",
    "autoscaling_v1.HorizontalPodAutoscaler": "autoscaling:default_autoscaler_v1",
    "autoscaling_v2.HorizontalPodAutoscaler": "autoscaling:default_autoscaler",
    "batch_v1.CronJob": "batch:default_cron_job",
    "batch_v1.Job": "batch:default_job",
    "certificates_v1.PodCertificateRequest": "security:default_pod_certificate_request",
    "core_v1.Endpoints": "network:default_endpoints",
    "core_v1.LimitRange": "core:default_limit_range",
    "core_v1.Namespace": "core:default_namespace",
    "core_v1.Node": "core:default_node",
    "core_v1.PersistentVolume": "storage:default_persistent_volume",
    "core_v1.PersistentVolumeClaim": "storage:default_persistent_volume_claim",
    "core_v1.Pod": "pods.pod:default_pod",
    "core_v1.PodTemplate": "pods.pod:default_pod_template",
    "core_v1.ReplicationController": "core:default_replication_controller",
    "core_v1.ResourceQuota": "core:default_resource_quota",
    "core_v1.Secret": "core:default_secret",
    "core_v1.Service": "network:default_service",
    "discovery_v1.EndpointSlice": "network:default_endpoint_slice",
    "flowcontrol_v1.FlowSchema": "flowcontrol:default_flow_schema",
    "flowcontrol_v1.PriorityLevelConfiguration": "flowcontrol:default_priority_level",
    "networking_v1.IngressClass": "network:default_ingress_class",
    "networking_v1.NetworkPolicy": "network:default_network_policy",
    "rbac_v1.ClusterRole": "security:default_role",
    "rbac_v1.ClusterRoleBinding": "security:default_role_binding",
    "rbac_v1.Role": "security:default_role",
    "rbac_v1.RoleBinding": "security:default_role_binding",
    "resource_v1.ResourceClaim": "resource:default_resource_claim",
    "resource_v1.ResourceClaimTemplate": "resource:default_resource_claim_template",
    "resource_v1alpha3.ResourcePoolStatusRequest": "optional_resources:default_pool_status_request",
    "resource_v1beta1.ResourceClaim": "optional_resources:default_claim_v1beta1",
    "resource_v1beta1.ResourceClaimTemplate": "optional_resources:default_claim_template_v1beta1",
    "resource_v1beta2.ResourceClaim": "resource:default_resource_claim",
    "resource_v1beta2.ResourceClaimTemplate": "resource:default_resource_claim_template",
    "scheduling_v1.PriorityClass": "security:default_priority_class",
    "scheduling_v1alpha3.CompositePodGroup": "pods.pod_groups:default_composite_pod_group",
    "scheduling_v1alpha3.PodGroup": "pods.pod_groups:default_pod_group_v1alpha3",
    "scheduling_v1beta1.PodGroup": "pods.pod_groups:default_pod_group",
    "storage_v1.CSIDriver": "storage:default_csi_driver",
    "storage_v1.CSINode": "storage:default_csi_node",
    "storage_v1.StorageClass": "storage:default_storage_class",
    "storage_v1.VolumeAttachment": "storage:default_volume_attachment",
}


def apply_defaults(obj: Any) -> None:
    """Apply the defaults to a freshly decoded object in place."""
    kind: Any = type(obj)  # mypy doesn't take every `type` for hashable
    _defaulter_of(kind)(obj)


@cache
def _defaulter_of(kind: type) -> Defaulter:
    defaulter = _nothing
    target = DEFAULTERS.get(f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}")
    if target:
        module, _, function = target.partition(":")
        defaulter = getattr(import_module(f"{__name__}.{module}"), function)
    return defaulter


def _nothing(obj: Any) -> None:
    """Apply no defaults."""
