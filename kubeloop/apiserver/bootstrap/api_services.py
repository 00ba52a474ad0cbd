# SPDX-License-Identifier: Apache-2.0
"""APIServices of the group versions that this server itself serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubeloop.api.generated.apiregistration_v1 import (
    APIService,
    APIServiceCondition,
    APIServiceSpec,
    APIServiceStatus,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.api.scalars.wire import Time

# Automanaged label: maintained continuously ("true"), or only at start-up ("onstart").
AUTO_REGISTER_LABEL = "kube-aggregator.kubernetes.io/automanaged"
MANAGED_CONTINUOUSLY = "true"
_LABELS = {AUTO_REGISTER_LABEL: "onstart"}
# The group of APIServices has no APIService itself.
OWN_GROUP = "apiregistration.k8s.io"

_GROUP_PRIORITIES = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "internal.apiserver.k8s.io": 16000,
    "storagemigration.k8s.io": 15800,
    "lifecycle.k8s.io": 15700,
}
_USUAL_VERSION_PRIORITY = 15
_VERSION_PRIORITIES = {
    ("", "v1"): 1,
    ("admissionregistration.k8s.io", "v1alpha1"): 9,
    ("admissionregistration.k8s.io", "v1beta1"): 12,
    ("autoscaling", "v2"): 30,
    ("certificates.k8s.io", "v1beta1"): 9,
    ("coordination.k8s.io", "v1alpha2"): 12,
    ("coordination.k8s.io", "v1beta1"): 13,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("internal.apiserver.k8s.io", "v1alpha1"): 9,
    ("resource.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1alpha3"): 1,
    ("resource.k8s.io", "v1beta1"): 9,
    ("lifecycle.k8s.io", "v1alpha1"): 1,
    ("scheduling.k8s.io", "v1alpha3"): 3,
    ("scheduling.k8s.io", "v1beta1"): 9,
    ("storagemigration.k8s.io", "v1beta1"): 9,
}


def group_priority(group: str) -> int:
    """Return the priority of a built-in group in discovery; higher comes first."""
    return _GROUP_PRIORITIES.get(group, _GROUP_PRIORITIES[""])


def version_priority(group: str, version: str) -> int:
    """Return the priority of a version within its group."""
    return _VERSION_PRIORITIES.get((group, version), _USUAL_VERSION_PRIORITY)


def api_services(now: Time, resources: Iterable[Resource] = RESOURCES) -> Iterator[APIService]:
    """Yield an APIService for each served group version."""
    served = dict.fromkeys((resource.group, resource.version) for resource in resources)
    for group, version in served:
        if group == OWN_GROUP:
            continue
        yield APIService(
            metadata=ObjectMeta(name=f"{version}.{group}", labels=_LABELS),
            spec=APIServiceSpec(
                group=group,
                version=version,
                group_priority_minimum=group_priority(group),
                version_priority=version_priority(group, version),
            ),
            status=_local(now),
        )


def _local(now: Time) -> APIServiceStatus:
    available = APIServiceCondition(
        type="Available",
        status="True",
        reason="Local",
        message="Local APIServices are always available",
        last_transition_time=now,
    )
    return APIServiceStatus(conditions=(available,))


def virtual_api_service(group: str, version: str, now: Time) -> APIService:
    """Return the APIService of a virtual group, with the priorities of metrics-server's."""
    return APIService(
        metadata=ObjectMeta(name=f"{version}.{group}", labels=_LABELS),
        spec=APIServiceSpec(group=group, version=version, group_priority_minimum=100, version_priority=100),
        status=_local(now),
    )


def crd_api_service_spec(group: str, version: str) -> APIServiceSpec:
    """Return the APIService spec of a CRD's group version: behind built-in groups, versions sorted by name."""
    return APIServiceSpec(group=group, version=version, group_priority_minimum=1000, version_priority=100)


def crd_api_service(group: str, version: str, now: Time) -> APIService:
    """Return the APIService of a CRD's group version."""
    return APIService(
        metadata=ObjectMeta(name=f"{version}.{group}", labels={AUTO_REGISTER_LABEL: MANAGED_CONTINUOUSLY}),
        spec=crd_api_service_spec(group, version),
        status=_local(now),
    )
