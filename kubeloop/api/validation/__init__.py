# SPDX-License-Identifier: Apache-2.0
"""Validation of objects: upstream's rules, as field errors with upstream's messages.

    complete struct ─▶ ObjectValidator.validate_create / validate_update
                    ─▶ metadata rules (objectmeta) + the kind's ValidationRules ─▶ errors

Every kind gets the metadata rules, with the name rule of `kind_names`. Rules of a kind are found in the literal table
below, whose modules are imported when the first object of a kind arrives. A kind whose rules ask feature gates has a
function there, which makes the rules for the features of one server. A valid object costs little: paths are built
only for an error, or for a section that is present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from itertools import islice
from typing import Any

from kubeloop.api.features.gates import Features
from kubeloop.api.meta.field_path import MAX_ERRORS, FieldError, FieldErrors
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.api.validation.shared.kind_names import NameRule, name_rule_of
from kubeloop.api.validation.shared.objectmeta import validate_meta, validate_meta_update, validate_prefix_update
from kubeloop.api.validation.shared.rules import METADATA_ONLY, RulesFactory, ValidationRules

# Generated module and struct class, to its rules or the function that makes them. Other kinds get only the metadata
# rules.
RULES: dict[str, str] = {
    "admissionregistration_v1.MutatingAdmissionPolicy": "extensions.admission_policies:MUTATING_POLICY",
    "admissionregistration_v1.MutatingAdmissionPolicyBinding": "extensions.admission_policies:POLICY_BINDING",
    "admissionregistration_v1.MutatingWebhookConfiguration": "extensions.webhooks:WEBHOOKS",
    "admissionregistration_v1.ValidatingAdmissionPolicy": "extensions.admission_policies:VALIDATING_POLICY",
    "admissionregistration_v1.ValidatingAdmissionPolicyBinding": "extensions.admission_policies:POLICY_BINDING",
    "admissionregistration_v1.ValidatingWebhookConfiguration": "extensions.webhooks:WEBHOOKS",
    "apiextensions_v1.CustomResourceDefinition": "extensions.custom_resources:CUSTOM_RESOURCE_DEFINITION",
    "apiregistration_v1.APIService": "extensions.api_services:API_SERVICE",
    "apiserverinternal_v1alpha1.StorageVersion": "cluster.storage_versions:STORAGE_VERSION",
    "apps_v1.ControllerRevision": "workloads.daemonsets:CONTROLLER_REVISION",
    "apps_v1.DaemonSet": "workloads.daemonsets:DAEMON_SET",
    "apps_v1.Deployment": "workloads.deployments:DEPLOYMENT",
    "apps_v1.ReplicaSet": "workloads.deployments:REPLICA_SET",
    "apps_v1.StatefulSet": "workloads.statefulsets:STATEFUL_SET",
    "autoscaling_v2.HorizontalPodAutoscaler": "workloads.autoscaling:AUTOSCALER",
    "batch_v1.CronJob": "workloads.cronjobs:CRON_JOB",
    "batch_v1.Job": "workloads.jobs:JOB",
    "certificates_v1.CertificateSigningRequest": "certificates.certificate_requests:CERTIFICATE_SIGNING_REQUEST",
    "certificates_v1.ClusterTrustBundle": "certificates.trust_bundles:CLUSTER_TRUST_BUNDLE",
    "certificates_v1.PodCertificateRequest": "certificates.pod_certificates:POD_CERTIFICATE_REQUEST",
    "coordination_v1.Lease": "cluster.leases:LEASE",
    "coordination_v1beta1.LeaseCandidate": "cluster.leases:LEASE_CANDIDATE",
    "core_v1.ConfigMap": "cluster.config:CONFIG_MAP",
    "core_v1.Endpoints": "networking.endpoints:ENDPOINTS",
    "core_v1.Event": "cluster.events:EVENT",
    "core_v1.LimitRange": "cluster.limit_ranges:LIMIT_RANGE",
    "core_v1.Namespace": "cluster.namespaces:NAMESPACE",
    "core_v1.Node": "cluster.nodes:NODE",
    "core_v1.PersistentVolume": "storage.persistent_volumes:PERSISTENT_VOLUME",
    "core_v1.PersistentVolumeClaim": "storage.claims:PERSISTENT_VOLUME_CLAIM",
    "core_v1.Pod": "pods.pod:POD",
    "core_v1.PodTemplate": "pods.templates:POD_TEMPLATE",
    "core_v1.ReplicationController": "workloads.replicationcontrollers:REPLICATION_CONTROLLER",
    "core_v1.ResourceQuota": "cluster.quotas:RESOURCE_QUOTA",
    "core_v1.Secret": "cluster.config:SECRET",
    "core_v1.Service": "networking.services:SERVICE",
    "discovery_v1.EndpointSlice": "networking.endpoint_slices:ENDPOINT_SLICE",
    "events_v1.Event": "cluster.events:STRICT_EVENT",
    "flowcontrol_v1.FlowSchema": "cluster.flow_schemas:FLOW_SCHEMA",
    "flowcontrol_v1.PriorityLevelConfiguration": "cluster.priority_levels:PRIORITY_LEVEL",
    "lifecycle_v1alpha1.Eviction": "lifecycle.evictions:eviction_rules",
    "lifecycle_v1alpha1.EvictionRequest": "lifecycle.evictions:eviction_request_rules",
    "networking_v1.IPAddress": "networking.service_ranges:IP_ADDRESS",
    "networking_v1.Ingress": "networking.ingresses:INGRESS",
    "networking_v1.IngressClass": "networking.ingresses:INGRESS_CLASS",
    "networking_v1.NetworkPolicy": "networking.network_policies:NETWORK_POLICY",
    "networking_v1.ServiceCIDR": "networking.service_ranges:SERVICE_CIDR",
    "node_v1.RuntimeClass": "cluster.runtime_classes:RUNTIME_CLASS",
    "policy_v1.PodDisruptionBudget": "workloads.policy:DISRUPTION_BUDGET",
    "rbac_v1.ClusterRole": "cluster.rbac:CLUSTER_ROLE",
    "rbac_v1.ClusterRoleBinding": "cluster.rbac:CLUSTER_ROLE_BINDING",
    "rbac_v1.Role": "cluster.rbac:ROLE",
    "rbac_v1.RoleBinding": "cluster.rbac:ROLE_BINDING",
    "resource_v1.DeviceClass": "devices.claims:DEVICE_CLASS",
    "resource_v1.DeviceTaintRule": "devices.taint_rules:DEVICE_TAINT_RULE",
    "resource_v1.ResourceClaim": "devices.claims:claim_rules",
    "resource_v1.ResourceClaimTemplate": "devices.claims:claim_template_rules",
    "resource_v1.ResourceSlice": "devices.slices:RESOURCE_SLICE",
    "resource_v1alpha3.ResourcePoolStatusRequest": "devices.pool_status_requests:pool_status_request_rules",
    "scheduling_v1.PriorityClass": "cluster.priority_classes:PRIORITY_CLASS",
    "scheduling_v1alpha3.CompositePodGroup": "workloads.pod_groups:composite_pod_group_rules",
    "scheduling_v1beta1.PodGroup": "workloads.pod_groups:pod_group_rules",
    "scheduling_v1beta1.Workload": "workloads.pod_groups:workload_rules",
    "storage_v1.CSIDriver": "storage.storage_drivers:CSI_DRIVER",
    "storage_v1.CSINode": "storage.storage_drivers:CSI_NODE",
    "storage_v1.CSIStorageCapacity": "storage.storage_drivers:CSI_STORAGE_CAPACITY",
    "storage_v1.StorageClass": "storage.storage_classes:STORAGE_CLASS",
    "storage_v1.VolumeAttachment": "storage.volume_attachments:VOLUME_ATTACHMENT",
    "storage_v1.VolumeAttributesClass": "storage.storage_classes:VOLUME_ATTRIBUTES_CLASS",
    "storagemigration_v1.StorageVersionMigration": "cluster.storage_migrations:STORAGE_VERSION_MIGRATION",
}


@dataclass(frozen=True, slots=True)
class _Kind:
    names: NameRule
    rules: ValidationRules


class ObjectValidator:
    """Validates objects of all kinds with the features of one server.

    `now` returns the current time, with which some rules compare; without it they are left out.
    Invariant: `_kinds` has the rules of the kinds seen so far, made with `features`, which never change.
    """

    def __init__(
        self, features: Features, allow_privileged: bool = True, now: Callable[[], datetime] | None = None
    ) -> None:
        self._features = features
        self._now = now
        self._allow_privileged = allow_privileged
        self._kinds: dict[type, _Kind] = {}

    def validate_create(self, obj: Any) -> list[FieldError]:
        """Validate a complete new object."""
        if isinstance(obj, CustomResourceObject):
            return _unique(obj.rules.validate_create(obj))
        kind = self._kinds.get(type(obj)) or self._resolve(type(obj))
        if kind.names.validated_last and (errors := kind.rules.create(obj)):
            return _unique(errors)
        errors = validate_meta(obj.metadata, kind.names)
        errors += kind.rules.create(obj)
        if not self._allow_privileged:
            errors += _privileged_errors(obj, None, "")
        return _unique(errors) if errors else errors

    def validate_metadata(self, obj: Any) -> list[FieldError]:
        """Validate the metadata of a complete new object whose other parts are valid."""
        kind = self._kinds.get(type(obj)) or self._resolve(type(obj))
        errors = validate_meta(obj.metadata, kind.names)
        return _unique(errors) if errors else errors

    def validate_update(self, new: Any, old: Any, subresource: str = "") -> list[FieldError]:
        """Validate a complete object that replaces an old one, directly or through a subresource."""
        if isinstance(new, CustomResourceObject):
            return _unique(new.rules.validate_update(new, old, subresource))
        kind = self._kinds.get(type(new)) or self._resolve(type(new))
        errors = validate_meta_update(new.metadata, old.metadata, kind.names)
        if kind.names.prefix_on_update and not subresource:
            errors += validate_prefix_update(new.metadata, old.metadata, kind.names)
        rules = kind.rules
        errors += rules.update_rule(subresource)(new, old)
        if rules.timed_subresources and (rule := rules.timed_subresources.get(subresource)) and self._now is not None:
            errors += rule(new, old, self._now())
        if not self._allow_privileged:
            errors += _privileged_errors(new, old, subresource)
        return _unique(errors) if errors else errors

    def _resolve(self, kind: type) -> _Kind:
        key = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
        rules: ValidationRules | RulesFactory = METADATA_ONLY
        if target := RULES.get(key):
            module, _, name = target.partition(":")
            rules = getattr(import_module(f"{__name__}.{module}"), name)
        made = rules if isinstance(rules, ValidationRules) else rules(self._features)
        found = self._kinds[kind] = _Kind(name_rule_of(key), made)
        return found


def _privileged_errors(new: Any, old: Any | None, subresource: str) -> FieldErrors:
    """Return the errors of privileged containers: as upstream, an update of a pod itself does not validate them."""
    from kubeloop.api.generated.core_v1 import Pod
    from kubeloop.api.validation.pods.privilege_policy import validate_unprivileged, validate_unprivileged_ephemeral

    if isinstance(new, Pod) and old is not None:
        return validate_unprivileged_ephemeral(new) if subresource == "ephemeralcontainers" else []
    return [] if subresource else validate_unprivileged(new)


def _unique(errors: Iterable[FieldError]) -> FieldErrors:
    """Return each error once, up to a maximum number; rules overlap."""
    told = islice(errors, MAX_ERRORS)
    return list({(error.type, error.field, error.body()): error for error in told}.values())
