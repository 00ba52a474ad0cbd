# SPDX-License-Identifier: Apache-2.0
"""Warnings for valid objects, with upstream's texts.

    valid struct ─▶ warnings_for(new, old, subresource) ─▶ the kind's Warnings ─▶ texts for the Warning header

Kinds are found in the literal table below; their modules are imported when the first object of a kind arrives.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from kubeloop.api.warnings.rules import Warnings

# Generated module and struct class, to its warnings. Other kinds have none.
WARNINGS: dict[str, str] = {
    "admissionregistration_v1.MutatingAdmissionPolicy": "admission:RESERVED_NAMES",
    "admissionregistration_v1.MutatingAdmissionPolicyBinding": "admission:RESERVED_NAMES",
    "admissionregistration_v1.MutatingWebhookConfiguration": "admission:WEBHOOKS",
    "admissionregistration_v1.ValidatingAdmissionPolicy": "admission:RESERVED_NAMES",
    "admissionregistration_v1.ValidatingAdmissionPolicyBinding": "admission:RESERVED_NAMES",
    "admissionregistration_v1.ValidatingWebhookConfiguration": "admission:WEBHOOKS",
    "apps_v1.DaemonSet": "workloads:DAEMON_SET",
    "apps_v1.Deployment": "workloads:NAMED_TEMPLATE",
    "apps_v1.ReplicaSet": "workloads:NAMED_TEMPLATE",
    "apps_v1.StatefulSet": "workloads:STATEFUL_SET",
    "batch_v1.CronJob": "workloads:CRON_JOB",
    "batch_v1.Job": "workloads:JOB",
    "core_v1.Endpoints": "networks:ENDPOINTS",
    "core_v1.Node": "cluster:NODE",
    "core_v1.PersistentVolume": "storage:PERSISTENT_VOLUME",
    "core_v1.PersistentVolumeClaim": "storage:PERSISTENT_VOLUME_CLAIM",
    "core_v1.Pod": "pods:POD",
    "core_v1.PodTemplate": "workloads:POD_TEMPLATE",
    "core_v1.ReplicationController": "workloads:NAMED_TEMPLATE",
    "core_v1.ResourceQuota": "cluster:RESOURCE_QUOTA",
    "core_v1.Secret": "secrets:SECRET",
    "core_v1.Service": "services:SERVICE",
    "core_v1.ServiceAccount": "cluster:SERVICE_ACCOUNT",
    "apiextensions_v1.CustomResourceDefinition": "definitions:DEFINITION",
    "instance.CustomResourceObject": "custom:INSTANCE",
    "discovery_v1.EndpointSlice": "networks:ENDPOINT_SLICE",
    "networking_v1.Ingress": "networks:INGRESS",
    "networking_v1.NetworkPolicy": "networks:NETWORK_POLICY",
    "node_v1.RuntimeClass": "cluster:RUNTIME_CLASS",
    "resource_v1.ResourceSlice": "cluster:RESOURCE_SLICE",
    "storage_v1.CSIDriver": "storage:CSI_DRIVER",
    "storage_v1.CSIStorageCapacity": "storage:CSI_STORAGE_CAPACITY",
    "storage_v1.StorageClass": "storage:STORAGE_CLASS",
}

_NONE = Warnings()


def warnings_for(new: Any, old: Any | None, subresource: str = "") -> Sequence[str]:
    """Return the warnings about a new object, or about one that replaces `old`."""
    kind: Any = type(new)  # mypy doesn't take every `type` for hashable
    rules = _warnings_of(kind)
    if old is None:
        return rules.create(new)
    if subresource:
        return rules.status(new, old) if subresource == "status" else ()
    return rules.update(new, old)


@cache
def _warnings_of(kind: type) -> Warnings:
    found = _NONE
    if target := WARNINGS.get(f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"):
        module, _, name = target.partition(":")
        found = getattr(import_module(f"{__name__}.{module}"), name)
    return found
