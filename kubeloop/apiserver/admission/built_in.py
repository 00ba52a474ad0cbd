"""Table of the plugins that are enabled by default, in the order in which they run."""

from __future__ import annotations

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.apiserver.admission import AdmissionPlugin, Lookup
from kubeloop.apiserver.admission.plugins.certificate_rights import CertificateApproval, CertificateSigning
from kubeloop.apiserver.admission.plugins.certificate_subject_restriction import CertificateSubjectRestriction
from kubeloop.apiserver.admission.plugins.default_ingress_class import DefaultIngressClass
from kubeloop.apiserver.admission.plugins.default_storage_class import DefaultStorageClass
from kubeloop.apiserver.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from kubeloop.apiserver.admission.plugins.device_rights import DeviceAdminAccess, ResourceClaimStatusAuthorization
from kubeloop.apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from kubeloop.apiserver.admission.plugins.node.restriction import NodeRestriction
from kubeloop.apiserver.admission.plugins.persistent_volume_claim_resize import PersistentVolumeClaimResize
from kubeloop.apiserver.admission.plugins.pod_group_protection import PodGroupProtection
from kubeloop.apiserver.admission.plugins.pod_resize_validator import PodResizeValidator
from kubeloop.apiserver.admission.plugins.pod_security import PodSecurity
from kubeloop.apiserver.admission.plugins.pod_topology_labels import PodTopologyLabels
from kubeloop.apiserver.admission.plugins.priority import PriorityPlugin
from kubeloop.apiserver.admission.plugins.quota.limit_ranger import LimitRanger
from kubeloop.apiserver.admission.plugins.quota.quota_ledger import QuotaAccessor
from kubeloop.apiserver.admission.plugins.quota.resource_quota import ResourceQuotaPlugin
from kubeloop.apiserver.admission.plugins.role_escalation import RoleEscalation
from kubeloop.apiserver.admission.plugins.runtime_class import RuntimeClassPlugin
from kubeloop.apiserver.admission.plugins.service_account import ServiceAccountPlugin
from kubeloop.apiserver.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from kubeloop.apiserver.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from kubeloop.apiserver.authorization import UnionAuthorizer


def built_in_plugins(
    lookup: Lookup,
    ledger: QuotaAccessor,
    authorizer: UnionAuthorizer | None = None,
    features: Features = DEFAULT_FEATURES,
) -> tuple[AdmissionPlugin, ...]:
    """Return the default plugins in order; without an authorizer, those that need one are left out."""
    return (
        NamespaceLifecycle(lookup),
        *(_authorizing_plugins(authorizer, lookup, features) if authorizer is not None else ()),
        LimitRanger(lookup),
        ServiceAccountPlugin(lookup),
        TaintNodesByCondition(),
        PodSecurity(lookup),
        PriorityPlugin(lookup, features),
        DefaultTolerationSeconds(),
        DefaultStorageClass(lookup),
        StorageObjectInUseProtection(),
        *((PodGroupProtection(),) if features.is_on("GenericWorkload") else ()),
        PersistentVolumeClaimResize(lookup),
        RuntimeClassPlugin(lookup),
        CertificateSubjectRestriction(),
        DefaultIngressClass(lookup),
        PodTopologyLabels(lookup),
        PodResizeValidator(lookup),
        DeviceAdminAccess(lookup),
        ResourceQuotaPlugin(lookup, ledger),
    )


def _authorizing_plugins(
    authorizer: UnionAuthorizer, lookup: Lookup, features: Features
) -> tuple[AdmissionPlugin, ...]:
    """Return the plugins that ask the authorizer. No other plugin changes their kinds."""
    asking: tuple[AdmissionPlugin, ...] = (
        NodeRestriction(lookup, authorizer),
        CertificateApproval(authorizer),
        CertificateSigning(authorizer),
        *(
            (ResourceClaimStatusAuthorization(authorizer),)
            if features.is_on("DRAResourceClaimGranularStatusAuthorization")
            else ()
        ),
    )
    if authorizer.rbac is None:
        return asking
    return (*asking, RoleEscalation(authorizer, authorizer.rbac))
