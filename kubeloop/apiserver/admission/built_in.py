# SPDX-License-Identifier: Apache-2.0
"""Table of all plugins, in the order in which they run; modules of optional ones are loaded when they are enabled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kubeloop.api.features.gates import Features
from kubeloop.apiserver.admission import AdmissionPlugin
from kubeloop.apiserver.admission.plugin_names import DEFAULT_PLUGINS, ORDERED_PLUGINS
from kubeloop.apiserver.admission.plugins.authorization.policy_param_authorization import PolicyParamAuthorization
from kubeloop.apiserver.admission.plugins.authorization.resource_claim_authorization import (
    DeviceAdminAccess,
    ResourceClaimStatusAuthorization,
)
from kubeloop.apiserver.admission.plugins.authorization.role_escalation import RoleEscalation
from kubeloop.apiserver.admission.plugins.certificate_authorization import CertificateApproval, CertificateSigning
from kubeloop.apiserver.admission.plugins.certificate_subject_restriction import CertificateSubjectRestriction
from kubeloop.apiserver.admission.plugins.cluster_trust_bundle_attest import ClusterTrustBundleAttest
from kubeloop.apiserver.admission.plugins.default_ingress_class import DefaultIngressClass
from kubeloop.apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from kubeloop.apiserver.admission.plugins.node.declared_feature_validator import NodeDeclaredFeatureValidator
from kubeloop.apiserver.admission.plugins.node.restriction import NodeRestriction
from kubeloop.apiserver.admission.plugins.pod_security import PodSecurity
from kubeloop.apiserver.admission.plugins.pod_security.configuration import PodSecurityConfiguration
from kubeloop.apiserver.admission.plugins.pod_security.metrics import PodSecurityMetrics
from kubeloop.apiserver.admission.plugins.pods.default_toleration_seconds import DefaultTolerationSeconds
from kubeloop.apiserver.admission.plugins.pods.pod_group_protection import PodGroupProtection
from kubeloop.apiserver.admission.plugins.pods.pod_resize_validator import PodResizeValidator
from kubeloop.apiserver.admission.plugins.pods.pod_topology_labels import PodTopologyLabels
from kubeloop.apiserver.admission.plugins.pods.priority import PriorityPlugin
from kubeloop.apiserver.admission.plugins.pods.runtime_class import RuntimeClassPlugin
from kubeloop.apiserver.admission.plugins.pods.service_account import ServiceAccountPlugin
from kubeloop.apiserver.admission.plugins.quota.limit_ranger import LimitRanger
from kubeloop.apiserver.admission.plugins.quota.resource_quota import ResourceQuotaConfiguration, ResourceQuotaPlugin
from kubeloop.apiserver.admission.plugins.storage.default_storage_class import DefaultStorageClass
from kubeloop.apiserver.admission.plugins.storage.persistent_volume_claim_resize import PersistentVolumeClaimResize
from kubeloop.apiserver.admission.plugins.storage.storage_object_in_use_protection import StorageObjectInUseProtection
from kubeloop.apiserver.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from kubeloop.apiserver.admission.setup import PluginContext
from kubeloop.apiserver.authorization import UnionAuthorizer

# Upstream checks these in the storage of their kinds, whatever plugins are enabled: after mutation, before quota.
_AFTER_STORAGE_CHECKS: Final = "ResourceQuota"


_Factory = Callable[[PluginContext], AdmissionPlugin]

_FACTORIES: Final[dict[str, _Factory]] = {
    "NamespaceLifecycle": lambda context: NamespaceLifecycle(context.lookup),
    "LimitRanger": lambda context: LimitRanger(context.lookup),
    "ServiceAccount": lambda context: ServiceAccountPlugin(context.lookup),
    "TaintNodesByCondition": lambda context: TaintNodesByCondition(),
    "PodSecurity": lambda context: PodSecurity(
        context.lookup,
        context.setup.configuration("PodSecurity", PodSecurityConfiguration),
        PodSecurityMetrics(context.metrics),
    ),
    "Priority": lambda context: PriorityPlugin(context.lookup, context.features),
    "DefaultTolerationSeconds": lambda context: DefaultTolerationSeconds(
        context.setup.run_options.not_ready_toleration_seconds, context.setup.run_options.unreachable_toleration_seconds
    ),
    "DefaultStorageClass": lambda context: DefaultStorageClass(context.lookup),
    "StorageObjectInUseProtection": lambda context: StorageObjectInUseProtection(),
    "PodGroupProtection": lambda context: PodGroupProtection(),
    "PersistentVolumeClaimResize": lambda context: PersistentVolumeClaimResize(context.lookup),
    "RuntimeClass": lambda context: RuntimeClassPlugin(context.lookup),
    "CertificateSubjectRestriction": lambda context: CertificateSubjectRestriction(),
    "DefaultIngressClass": lambda context: DefaultIngressClass(context.lookup),
    "PodTopologyLabels": lambda context: PodTopologyLabels(context.lookup),
    "NodeDeclaredFeatureValidator": lambda context: NodeDeclaredFeatureValidator(context.lookup, context.features),
    "PodResizeValidator": lambda context: PodResizeValidator(context.lookup),
    "ResourceQuota": lambda context: ResourceQuotaPlugin(
        context.lookup, context.ledger, context.setup.configuration("ResourceQuota", ResourceQuotaConfiguration)
    ),
}
_AUTHORIZING_FACTORIES: Final[dict[str, _Factory]] = {
    "NodeRestriction": lambda context: NodeRestriction(context.lookup, _authorizer(context)),
    "CertificateApproval": lambda context: CertificateApproval(_authorizer(context)),
    "CertificateSigning": lambda context: CertificateSigning(_authorizer(context)),
    "ClusterTrustBundleAttest": lambda context: ClusterTrustBundleAttest(_authorizer(context)),
}
# Gates without which a plugin does nothing.
_GATES: Final = {
    "PodGroupProtection": "GenericWorkload",
    "ClusterTrustBundleAttest": "ClusterTrustBundle",
}


def _authorizer(context: PluginContext) -> UnionAuthorizer:
    assert context.authorizer is not None
    return context.authorizer


def built_in_plugins(context: PluginContext) -> Iterator[AdmissionPlugin]:
    """Yield the enabled plugins in order; without an authorizer, those that need one are left out."""
    factories = {**_FACTORIES, **(_AUTHORIZING_FACTORIES if context.authorizer is not None else {})}
    enabled = context.setup.enabled
    if not enabled <= DEFAULT_PLUGINS:
        from kubeloop.apiserver.admission.optional_plugins import OPTIONAL_PLUGINS

        factories |= OPTIONAL_PLUGINS
    for name in ORDERED_PLUGINS:
        if name == _AFTER_STORAGE_CHECKS:
            yield from _storage_checks(context)
        if name in enabled and name in factories and _is_gate_enabled(name, context.features):
            yield factories[name](context)


def _is_gate_enabled(name: str, features: Features) -> bool:
    return name not in _GATES or features.is_enabled(_GATES[name])


def _storage_checks(context: PluginContext) -> Iterator[AdmissionPlugin]:
    yield DeviceAdminAccess(context.lookup)
    authorizer = context.authorizer
    if authorizer is None:
        return
    yield PolicyParamAuthorization(authorizer, context.lookup)
    if context.features.is_enabled("DRAResourceClaimGranularStatusAuthorization"):
        yield ResourceClaimStatusAuthorization(authorizer)
    if authorizer.rbac is not None:
        yield RoleEscalation(authorizer, authorizer.rbac)
