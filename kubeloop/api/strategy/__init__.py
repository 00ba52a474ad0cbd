# SPDX-License-Identifier: Apache-2.0
"""Strategies: per-resource preparation of objects before validation, as pure functions.

    decoded, defaulted ─▶ prepare_create(obj, features) | prepare_update(new, old, features)
                          | prepare_status_update(new, old, features) | subresource_updates[name](new, old, features)
                          ─▶ set_timestamps(new, old, now) ─▶ validation ─▶ store

A strategy restores or clears fields that a request may not set: status belongs to the status subresource, spec to the
main one, the generation to the server. Each function changes `new`, a struct that is not shared yet, in place with
`codec.force_setattr`; `old` and everything taken over from it is shared and never changed.

A resource that is absent from the table has the plain strategy: nothing is kept, nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Final

from kubeloop.api.kinds import Resource
from kubeloop.api.strategy.base import RESETS_METADATA, RESETS_SPEC, RESETS_STATUS_ONLY, STATUS_METADATA, Strategy

_SPEC = ("spec",)
_ANY_WRITE = Strategy(allow_create_on_update=True)
_CONDITIONAL = Strategy(allow_unconditional_update=False)
_GENERATION = Strategy(generation_of=_SPEC)
_GENERATION_AND_STATUS = Strategy(generation_of=_SPEC, has_status=True, reset_fields=RESETS_SPEC)
_POLICY = Strategy(generation_of=_SPEC, allow_unconditional_update=False)
_WEBHOOKS = Strategy(generation_of=("webhooks",), allow_unconditional_update=False)
_SEPARATE_STATUS = Strategy(has_status=True, reset_fields=RESETS_SPEC)
# Status updates that may not change metadata, on resources that require a resourceVersion.
_GUARDED_STATUS = Strategy(
    has_status=True,
    status_preserved_meta=STATUS_METADATA,
    reset_fields=RESETS_METADATA,
    allow_unconditional_update=False,
)
_GENERATION_AND_GUARDED_STATUS = replace(_GUARDED_STATUS, generation_of=_SPEC)

# By qualified name: the strategy itself, or its module, which is imported on first use.
STRATEGIES: Final[Mapping[str, Strategy | str]] = {
    "apiservices.apiregistration.k8s.io": "extension:API_SERVICE",
    "certificatesigningrequests.certificates.k8s.io": "certificates:SIGNING_REQUEST",
    "clusterrolebindings.rbac.authorization.k8s.io": _ANY_WRITE,
    "clusterroles.rbac.authorization.k8s.io": _ANY_WRITE,
    "clustertrustbundles.certificates.k8s.io": _CONDITIONAL,
    "compositepodgroups.scheduling.k8s.io": "pods.pod_groups:COMPOSITE_POD_GROUP",
    "cronjobs.batch": "batch:CRON_JOB",
    "csidrivers.storage.k8s.io": Strategy(generation_after_change=_SPEC, allow_unconditional_update=False),
    "csinodes.storage.k8s.io": "storage:CSI_NODE",
    "csistoragecapacities.storage.k8s.io": _CONDITIONAL,
    "customresourcedefinitions.apiextensions.k8s.io": "extension:CUSTOM_RESOURCE_DEFINITION",
    "daemonsets.apps": "apps:DAEMON_SET",
    "deployments.apps": "apps:DEPLOYMENT",
    "deviceclasses.resource.k8s.io": _GENERATION,
    "devicetaintrules.resource.k8s.io": "devices:TAINT_RULE",
    "endpoints": _ANY_WRITE,
    "endpointslices.discovery.k8s.io": "network:ENDPOINT_SLICE",
    "events": Strategy(allow_create_on_update=True, garbage_collection="Unsupported"),
    "events.events.k8s.io": Strategy(
        allow_create_on_update=True, garbage_collection="Unsupported", validated_as_served=True
    ),
    "evictionrequests.lifecycle.k8s.io": _GENERATION_AND_GUARDED_STATUS,
    "evictions.lifecycle.k8s.io": _GENERATION_AND_GUARDED_STATUS,
    "flowschemas.flowcontrol.apiserver.k8s.io": "flowcontrol:FLOW_CONTROL",
    "horizontalpodautoscalers.autoscaling": "autoscaling:AUTOSCALER",
    "ingressclasses.networking.k8s.io": _GENERATION,
    "ingresses.networking.k8s.io": _GENERATION_AND_STATUS,
    "jobs.batch": "batch:JOB",
    "leasecandidates.coordination.k8s.io": Strategy(allow_create_on_update=True, allow_unconditional_update=False),
    "leases.coordination.k8s.io": "cluster:LEASE",
    "limitranges": "cluster:LIMIT_RANGE",
    "mutatingadmissionpolicies.admissionregistration.k8s.io": _POLICY,
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": _POLICY,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "namespaces": "cluster:NAMESPACE",
    "networkpolicies.networking.k8s.io": _GENERATION,
    "nodes": "cluster:NODE",
    "persistentvolumeclaims": "storage:CLAIM",
    "persistentvolumes": "storage:VOLUME",
    "podcertificaterequests.certificates.k8s.io": _GUARDED_STATUS,
    "poddisruptionbudgets.policy": "network:DISRUPTION_BUDGET",
    "podgroups.scheduling.k8s.io": "pods.pod_groups:POD_GROUP",
    "pods": "pods.pod:POD",
    "podtemplates": "apps:POD_TEMPLATE",
    "priorityclasses.scheduling.k8s.io": Strategy(has_constant_generation=True),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": "flowcontrol:FLOW_CONTROL",
    "replicasets.apps": "apps:REPLICA_SET",
    "replicationcontrollers": "apps:REPLICATION_CONTROLLER",
    "resourceclaims.resource.k8s.io": "devices:CLAIM",
    "resourceclaimtemplates.resource.k8s.io": "devices:CLAIM_TEMPLATE",
    "resourcepoolstatusrequests.resource.k8s.io": "pool_status_requests:POOL_STATUS_REQUEST",
    "resourcequotas": _SEPARATE_STATUS,
    "resourceslices.resource.k8s.io": "devices:SLICE",
    "rolebindings.rbac.authorization.k8s.io": _ANY_WRITE,
    "roles.rbac.authorization.k8s.io": _ANY_WRITE,
    "runtimeclasses.node.k8s.io": Strategy(allow_create_on_update=True, allow_unconditional_update=False),
    "serviceaccounts": "cluster:SERVICE_ACCOUNT",
    "servicecidrs.networking.k8s.io": Strategy(
        has_status=True, status_preserved_meta=STATUS_METADATA, reset_fields=RESETS_METADATA
    ),
    "services": "services:SERVICE",
    "statefulsets.apps": "apps:STATEFUL_SET",
    "storageversionmigrations.storagemigration.k8s.io": _GUARDED_STATUS,
    "storageversions.internal.apiserver.k8s.io": _GUARDED_STATUS,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _GENERATION_AND_GUARDED_STATUS,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _POLICY,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "volumeattachments.storage.k8s.io": _GUARDED_STATUS,
    "workloads.scheduling.k8s.io": "pods.pod_groups:WORKLOAD",
}

_PLAIN = Strategy()

__all__ = ["RESETS_METADATA", "RESETS_SPEC", "RESETS_STATUS_ONLY", "STRATEGIES", "Strategy", "strategy_of"]


def strategy_of(resource: Resource) -> Strategy:
    """Return the strategy of a resource; all its versions share one."""
    strategy = STRATEGIES.get(resource.group_resource, _PLAIN)
    return _load(strategy) if isinstance(strategy, str) else strategy


@cache
def _load(target: str) -> Strategy:
    module, _, name = target.partition(":")
    strategy: Strategy = getattr(import_module(f"{__name__}.{module}"), name)
    return strategy
