# SPDX-License-Identifier: Apache-2.0
"""Kinds that upstream's schemes register, and their common internal types.

A body may name a kind that is registered but sent to the wrong path, or a version that is no longer served; upstream
distinguishes these from unknown kinds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kubeloop.api.kinds import RESOURCES

# Kinds that can be decoded although they aren't served as resources, or no longer in that version.
_ALSO_KNOWN: Final = {
    "v1": "ComponentStatusList List NodeProxyOptions PodAttachOptions PodExecOptions PodLogOptions "
    "PodPortForwardOptions PodProxyOptions RangeAllocation SerializedReference ServiceProxyOptions Status "
    "APIVersions APIGroupList APIGroup APIResourceList",
    "admissionregistration.k8s.io/v1alpha1": "MutatingAdmissionPolicy* MutatingAdmissionPolicyBinding* "
    "ValidatingAdmissionPolicy* ValidatingAdmissionPolicyBinding*",
    "admissionregistration.k8s.io/v1beta1": "MutatingAdmissionPolicy* MutatingAdmissionPolicyBinding* "
    "MutatingWebhookConfiguration* ValidatingAdmissionPolicy* ValidatingAdmissionPolicyBinding* "
    "ValidatingWebhookConfiguration*",
    "apiextensions.k8s.io/v1beta1": "ConversionReview CustomResourceDefinition*",
    "apiregistration.k8s.io/v1beta1": "APIService*",
    "apps/v1beta1": "ControllerRevision* Deployment* DeploymentRollback Scale StatefulSet*",
    "apps/v1beta2": "ControllerRevision* DaemonSet* Deployment* ReplicaSet* Scale StatefulSet*",
    "authentication.k8s.io/v1": "TokenRequest",
    "authentication.k8s.io/v1alpha1": "SelfSubjectReview",
    "authentication.k8s.io/v1beta1": "SelfSubjectReview TokenReview",
    "authorization.k8s.io/v1beta1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview "
    "SubjectAccessReview",
    "autoscaling/v1": "Scale",
    "batch/v1beta1": "CronJob*",
    "certificates.k8s.io/v1alpha1": "ClusterTrustBundle*",
    "certificates.k8s.io/v1beta1": "CertificateSigningRequest* ClusterTrustBundle* PodCertificateRequest*",
    "coordination.k8s.io/v1alpha2": "LeaseCandidate*",
    "coordination.k8s.io/v1beta1": "Lease* LeaseCandidate*",
    "discovery.k8s.io/v1beta1": "EndpointSlice*",
    "events.k8s.io/v1beta1": "Event*",
    "extensions/v1beta1": "DaemonSet* Deployment* DeploymentRollback Ingress* NetworkPolicy* ReplicaSet* Scale",
    "flowcontrol.apiserver.k8s.io/v1beta1": "FlowSchema* PriorityLevelConfiguration*",
    "flowcontrol.apiserver.k8s.io/v1beta2": "FlowSchema* PriorityLevelConfiguration*",
    "flowcontrol.apiserver.k8s.io/v1beta3": "FlowSchema* PriorityLevelConfiguration*",
    "internal.apiserver.k8s.io/v1alpha1": "StorageVersion*",
    "lifecycle.k8s.io/v1alpha1": "Eviction* EvictionRequest*",
    "networking.k8s.io/v1beta1": "IPAddress* Ingress* IngressClass* ServiceCIDR*",
    "node.k8s.io/v1alpha1": "RuntimeClass*",
    "node.k8s.io/v1beta1": "RuntimeClass*",
    "policy/v1": "Eviction",
    "policy/v1beta1": "Eviction PodDisruptionBudget*",
    "rbac.authorization.k8s.io/v1alpha1": "ClusterRole* ClusterRoleBinding* Role* RoleBinding*",
    "rbac.authorization.k8s.io/v1beta1": "ClusterRole* ClusterRoleBinding* Role* RoleBinding*",
    "resource.k8s.io/v1alpha3": "DeviceTaintRule* ResourcePoolStatusRequest*",
    "resource.k8s.io/v1beta1": "DeviceClass* ResourceClaim* ResourceClaimTemplate* ResourceSlice*",
    "resource.k8s.io/v1beta2": "DeviceClass* DeviceTaintRule* ResourceClaim* ResourceClaimTemplate* ResourceSlice*",
    "scheduling.k8s.io/v1alpha3": "CompositePodGroup* PodGroup* Workload*",
    "scheduling.k8s.io/v1beta1": "PodGroup* PriorityClass* Workload*",
    "storage.k8s.io/v1alpha1": "CSIStorageCapacity* VolumeAttachment* VolumeAttributesClass*",
    "storage.k8s.io/v1beta1": "CSIDriver* CSINode* CSIStorageCapacity* StorageClass* VolumeAttachment* "
    "VolumeAttributesClass*",
    "storagemigration.k8s.io/v1beta1": "StorageVersionMigration*",
}
# Registered in every version of every group.
_EVERYWHERE: Final = frozenset(
    ("CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent")
)
# Delegated servers with their own scheme, by the location of upstream's scheme.
_OWN_SCHEMES: Final = {
    "apiextensions.k8s.io": "pkg/apiserver/apiserver.go:56",
    "apiregistration.k8s.io": "pkg/apiserver/scheme/scheme.go:28",
}
_MAIN_SCHEME: Final = "pkg/api/legacyscheme/scheme.go:30"
_MOVED: Final = {
    "DaemonSet": "apps",
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "Ingress": "networking",
    "NetworkPolicy": "networking",
}


@lru_cache(maxsize=1024)  # clients name the versions
def _known(group_version: str) -> frozenset[str]:
    kinds = set(_EVERYWHERE)
    for word in _ALSO_KNOWN.get(group_version, "").split():
        kinds.add(word.removesuffix("*"))
        if word.endswith("*"):
            kinds.add(word.removesuffix("*") + "List")
    for resource in RESOURCES:
        if resource.group_version == group_version:
            kinds.add(resource.kind)
            if resource.is_stored:
                kinds.add(resource.list_kind)
    return frozenset(kinds) if len(kinds) > len(_EVERYWHERE) else frozenset()


def is_registered(group_version: str, kind: str, server_group: str) -> bool:
    """Return True if the scheme that serves a group has the kind registered."""
    group = group_version.rpartition("/")[0]
    if (server_group in _OWN_SCHEMES or group in _OWN_SCHEMES) and group != server_group:
        return False
    return kind in _known(group_version)


def scheme_name(server_group: str) -> str:
    """Return the name of the scheme that serves a group."""
    return _OWN_SCHEMES.get(server_group, _MAIN_SCHEME)


def internal_type(group: str, kind: str) -> str:
    """Return the internal type of all versions of a kind, such as `apps.Deployment`."""
    if kind == "Scale":
        return "autoscaling.Scale"
    if group == "extensions":
        return f"{_MOVED.get(kind.removesuffix('List'), group)}.{kind}"
    if group in ("", "events.k8s.io"):
        return f"core.{kind}"
    return f"{group.partition('.')[0]}.{kind}"
