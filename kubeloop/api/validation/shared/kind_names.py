# SPDX-License-Identifier: Apache-2.0
"""Name rules and scopes of all kinds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kubeloop.api.addresses import check_ip
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.api.meta.name_rules import (
    Check,
    check_config_map_key,
    check_dns1035_label,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_generate_name,
    check_path_segment_name,
    check_path_segment_prefix,
)


@dataclass(frozen=True, slots=True)
class NameRule:
    """Name rule of a kind."""

    check: Check = check_dns1123_subdomain
    namespaced: bool = True
    # Upstream checks finalizers without a slash against a list of known ones, except in these few groups.
    standard_finalizers: bool = True
    # New objects: the metadata is validated only if the kind's own rules find no error.
    validated_last: bool = False
    # The kind's own rules validate names, completely.
    checked_by_rules: bool = False
    # Updates: a changed generateName is validated like a new object's.
    prefix_on_update: bool = False

    def check_prefix(self, prefix: str) -> list[str]:
        """Validate a generateName, which is the prefix of a name."""
        if self.check is check_path_segment_name:
            return check_path_segment_prefix(prefix)
        return check_generate_name(self.check, prefix)


def check_storage_version_name(name: str) -> list[str]:
    """Validate the name of a StorageVersion: a group and a resource."""
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    groups = [f"the group segment {message}" for message in check_dns1123_subdomain(group)]
    return groups + [f"the resource segment {message}" for message in check_dns1035_label(resource)]


# Kinds whose names are not DNS subdomains.
NAME_CHECKS: Final[dict[str, Check]] = {
    "apps_v1.StatefulSet": check_dns1123_label,
    "apiregistration_v1.APIService": check_path_segment_name,
    "apiserverinternal_v1alpha1.StorageVersion": check_storage_version_name,
    "certificates_v1.CertificateSigningRequest": check_path_segment_name,
    "certificates_v1.ClusterTrustBundle": check_path_segment_name,
    "coordination_v1beta1.LeaseCandidate": check_config_map_key,
    "core_v1.Event": check_path_segment_name,
    "core_v1.Namespace": check_dns1123_label,
    "core_v1.Service": check_dns1123_label,
    "networking_v1.IPAddress": check_ip,
    "policy_v1.PodDisruptionBudget": check_path_segment_name,
    "rbac_v1.ClusterRole": check_path_segment_name,
    "rbac_v1.ClusterRoleBinding": check_path_segment_name,
    "rbac_v1.Role": check_path_segment_name,
    "rbac_v1.RoleBinding": check_path_segment_name,
}

_FREE_FINALIZERS: Final = (
    *("admissionregistration_v1.", "apiextensions_v1.", "apiregistration_v1.", "coordination_v1", "core_v1.Event"),
    "policy_v1.PodDisruptionBudget",
)
_CHECKED_BY_RULES: Final = frozenset(("certificates_v1.ClusterTrustBundle",))
# Kinds whose own rules omit metadata, so that upstream validates it only if they find no error.
_METADATA_LAST: Final = frozenset(("policy_v1.PodDisruptionBudget",))

# Kinds whose rules for updates include those for new objects.
_PREFIX_ON_UPDATE: Final = frozenset(
    (
        *("core_v1.ConfigMap", "core_v1.Endpoints", "core_v1.LimitRange", "core_v1.Node", "core_v1.PersistentVolume"),
        *("core_v1.Namespace", "core_v1.ServiceAccount"),
        *("core_v1.PersistentVolumeClaim", "core_v1.Pod", "core_v1.Secret", "apps_v1.ControllerRevision"),
        *(
            "admissionregistration_v1.MutatingAdmissionPolicy",
            "admissionregistration_v1.MutatingAdmissionPolicyBinding",
        ),
        "admissionregistration_v1.MutatingWebhookConfiguration",
        "admissionregistration_v1.ValidatingAdmissionPolicy",
        "admissionregistration_v1.ValidatingAdmissionPolicyBinding",
        "admissionregistration_v1.ValidatingWebhookConfiguration",
        *("discovery_v1.EndpointSlice", "flowcontrol_v1.FlowSchema", "flowcontrol_v1.PriorityLevelConfiguration"),
        *("networking_v1.Ingress", "networking_v1.IngressClass", "networking_v1.IPAddress", "node_v1.RuntimeClass"),
        *("resource_v1.ResourceClaim", "resource_v1.ResourceClaimTemplate", "storage_v1.CSINode"),
        *("storage_v1.CSIStorageCapacity", "storage_v1.StorageClass", "storage_v1.VolumeAttachment"),
        *("storage_v1.VolumeAttributesClass", "storagemigration_v1.StorageVersionMigration"),
    )
)


def name_rule_of(key: str) -> NameRule:
    """Return the rule of a struct class, given as its generated module and name."""
    module, _, kind = key.rpartition(".")
    found = _resource(module, kind, RESOURCES) or _resource_offered(module, kind)
    namespaced = found is None or found.namespaced
    return NameRule(
        NAME_CHECKS.get(key, check_dns1123_subdomain),
        namespaced,
        not key.startswith(_FREE_FINALIZERS),
        key in _METADATA_LAST,
        key in _CHECKED_BY_RULES,
        key in _PREFIX_ON_UPDATE,
    )


def _resource_offered(module: str, kind: str) -> Resource | None:
    from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES  # few servers need these

    return _resource(module, kind, OPTIONAL_RESOURCES)


def _resource(module: str, kind: str, known: Iterable[Resource]) -> Resource | None:
    return next((one for one in known if one.kind == kind and _module(one.definition) == module), None)


def _module(definition: str) -> str:
    return "_".join(definition.split(".")[-3:-1])
