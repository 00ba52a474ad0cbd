# SPDX-License-Identifier: Apache-2.0
"""Table of resources in versions that the API server serves only on request, in discovery order.

Complements the table of `api.kinds`, which has those served by default; `api.features.resource_config` selects.
"""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.kinds import STATUS, Resource, definitions_of

_ADMISSION = "admissionregistration.k8s.io"
_CERTIFICATES = "certificates.k8s.io"
_COORDINATION = "coordination.k8s.io"
_DEVICES = "resource.k8s.io"
_LIFECYCLE = "lifecycle.k8s.io"
_MIGRATION = "storagemigration.k8s.io"
_SCHEDULING = "scheduling.k8s.io"


def _optional(group: str, version: str, plural: str, kind: str, **facts: Any) -> Resource:
    """Return an optional resource; `old` has the minor versions of deprecation and removal.

    `stored` is the storage version.
    """
    stored, old = facts.pop("stored", version), facts.pop("old", None)
    if stored != version:
        facts["storage_override"] = (group, stored)
    if old is not None:
        instead = f"; use {group}/v1 {kind}" if facts.pop("replaced", False) else ""
        told = f"{group}/{version} {kind} is deprecated in v1.{old[0]}+, unavailable in v1.{old[1]}+"
        facts["deprecation"] = told + instead
        facts["removed_release"] = f"1.{old[1]}"
    return Resource(group, version, plural, kind, **facts)


def _policies(version: str, **facts: Any) -> tuple[Resource, ...]:
    facts = {"namespaced": False, "categories": ("api-extensions",), "stored": "v1", **facts}
    return (
        _optional(_ADMISSION, version, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", **facts),
        _optional(_ADMISSION, version, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", **facts),
    )


def _devices(version: str, old: tuple[int, int]) -> tuple[Resource, ...]:
    facts: dict[str, Any] = {"stored": "v1", "old": old}
    return (
        _optional(_DEVICES, version, "deviceclasses", "DeviceClass", namespaced=False, **facts),
        _optional(_DEVICES, version, "resourceclaims", "ResourceClaim", subresources=(STATUS,), **facts),
        _optional(_DEVICES, version, "resourceclaimtemplates", "ResourceClaimTemplate", **facts),
        _optional(_DEVICES, version, "resourceslices", "ResourceSlice", namespaced=False, **facts),
    )


def _taint_rules(version: str, **facts: Any) -> Resource:
    facts = {"namespaced": False, "subresources": (STATUS,), "stored": "v1", **facts}
    return _optional(_DEVICES, version, "devicetaintrules", "DeviceTaintRule", **facts)


def _workloads(version: str) -> tuple[Resource, ...]:
    facts: dict[str, Any] = {"feature_gate": "GenericWorkload", "stored": "v1beta1"}
    return (
        _optional(_SCHEDULING, version, "podgroups", "PodGroup", subresources=(STATUS,), **facts),
        _optional(_SCHEDULING, version, "workloads", "Workload", **facts),
    )


def _evictions() -> tuple[Resource, ...]:
    facts: dict[str, Any] = {"subresources": (STATUS,), "feature_gate": "EvictionRequestAPI"}
    return (
        _optional(_LIFECYCLE, "v1alpha1", "evictionrequests", "EvictionRequest", **facts),
        _optional(_LIFECYCLE, "v1alpha1", "evictions", "Eviction", **facts),
    )


OPTIONAL_RESOURCES: Final[tuple[Resource, ...]] = (
    _optional(
        _CERTIFICATES,
        "v1beta1",
        "clustertrustbundles",
        "ClusterTrustBundle",
        namespaced=False,
        feature_gate="ClusterTrustBundle",
        stored="v1",
        old=(37, 40),
        replaced=True,
    ),
    *_policies("v1beta1", old=(37, 40), replaced=True),
    *_policies("v1alpha1", old=(35, 38)),
    *_workloads("v1beta1"),
    *_workloads("v1alpha3"),
    _optional(
        _SCHEDULING,
        "v1alpha3",
        "compositepodgroups",
        "CompositePodGroup",
        subresources=(STATUS,),
        feature_gate="CompositePodGroup",
    ),
    _optional(_COORDINATION, "v1beta1", "leasecandidates", "LeaseCandidate", old=(36, 39)),
    _optional(_COORDINATION, "v1alpha2", "leasecandidates", "LeaseCandidate", stored="v1beta1", old=(35, 38)),
    *_devices("v1beta2", (36, 39)),
    _taint_rules("v1beta2"),
    *_devices("v1beta1", (35, 38)),
    _taint_rules("v1alpha3", old=(36, 39)),
    _optional(
        _DEVICES,
        "v1alpha3",
        "resourcepoolstatusrequests",
        "ResourcePoolStatusRequest",
        namespaced=False,
        subresources=(STATUS,),
    ),
    _optional(
        "internal.apiserver.k8s.io",
        "v1alpha1",
        "storageversions",
        "StorageVersion",
        namespaced=False,
        subresources=(STATUS,),
    ),
    _optional(
        _MIGRATION,
        "v1beta1",
        "storageversionmigrations",
        "StorageVersionMigration",
        namespaced=False,
        subresources=(STATUS,),
        feature_gate="StorageVersionMigrator",
        stored="v1",
        old=(37, 40),
        replaced=True,
    ),
    *_evictions(),
)

# All generated types, before the types that they refer to.
DEFINITIONS: Final[tuple[str, ...]] = tuple(dict.fromkeys(definitions_of(OPTIONAL_RESOURCES)))
