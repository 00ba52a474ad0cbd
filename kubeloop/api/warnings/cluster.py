# SPDX-License-Identifier: Apache-2.0
"""Warnings about nodes, quotas, service accounts, runtime classes and resource slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubeloop.api.generated.core_v1 import Node, ResourceQuota, ServiceAccount
from kubeloop.api.generated.node_v1 import RuntimeClass
from kubeloop.api.generated.resource_v1 import ResourceSlice
from kubeloop.api.meta.field_path import FieldPath, quote
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.warnings.addresses import cidr_warnings
from kubeloop.api.warnings.node_labels import DEPRECATED
from kubeloop.api.warnings.rules import Warnings, on_every_write

_MOUNTABLE_SECRETS: Final = "kubernetes.io/enforce-mountable-secrets"


def _of_node(node: Node) -> list[str]:
    said = []
    if node.spec.config_source is not None:
        said.append("spec.configSource: the feature is removed")
    if node.spec.external_id:
        said.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for i, network in enumerate(node.spec.pod_cidrs):
        said += cidr_warnings(FieldPath("spec").child("podCIDRs").index(i), network)
    return said


def _quota_created(quota: ResourceQuota) -> list[str]:
    return [*_requests_above_limits(quota)]


def _requests_above_limits(quota: ResourceQuota) -> Iterator[str]:
    hard = quota.spec.hard
    for name in ("cpu", "memory", "storage", "ephemeral-storage"):
        asked, limited = f"requests.{name}", f"limits.{name}"
        if asked not in hard and name in ("cpu", "memory"):
            asked = name
        if asked in hard and limited in hard and parse_quantity(hard[asked]) > parse_quantity(hard[limited]):
            yield f"ResourceQuota {asked} ({hard[asked]}) should be less than {limited} ({hard[limited]})"


def _account_created(account: ServiceAccount) -> list[str]:
    if _MOUNTABLE_SECRETS not in account.metadata.annotations:
        return []
    return [
        f"metadata.annotations[{_MOUNTABLE_SECRETS}]: deprecated in v1.32+; "
        "prefer separate namespaces to isolate access to mounted secrets"
    ]


def _account_updated(new: ServiceAccount, old: ServiceAccount) -> list[str]:
    return [] if _MOUNTABLE_SECRETS in old.metadata.annotations else _account_created(new)


def _of_runtime_class(runtime: RuntimeClass) -> list[str]:
    labels = runtime.scheduling.node_selector if runtime.scheduling is not None else {}
    return [f"scheduling.nodeSelector: {DEPRECATED[key]}" for key in labels if key in DEPRECATED]


def _of_slice(devices: ResourceSlice) -> list[str]:
    driver = devices.spec.driver
    if driver == driver.lower():
        return []
    return [f"spec.driver: driver names should be lowercase; {quote(driver)} contains uppercase characters"]


NODE = on_every_write(_of_node)
RESOURCE_QUOTA = Warnings(create=_quota_created)
SERVICE_ACCOUNT = Warnings(create=_account_created, update=_account_updated)
RUNTIME_CLASS = on_every_write(_of_runtime_class)
RESOURCE_SLICE = on_every_write(_of_slice)
