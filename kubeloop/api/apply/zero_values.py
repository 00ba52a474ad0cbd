# SPDX-License-Identifier: Apache-2.0
"""Zero values of upstream's Go types, which the schema does not contain.

A create is compared with such a zero value, so these fields are not new to it: `spec`, say, is present before a client
sets it, and has no owner itself. Required fields are present as a rule; the tables list the exceptions, by type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_EMPTY: frozenset[str] = frozenset()

STRUCTS_EVERYWHERE = frozenset({"metadata", "spec", "status"})
"""Structs by value in every built-in type that has them."""

STRUCTS_OF: Mapping[str, frozenset[str]] = {
    "AllocationResult": frozenset({"devices"}),
    "Container": frozenset({"resources"}),
    "ContainerStatus": frozenset({"state", "lastState"}),
    "CustomResourceDefinitionStatus": frozenset({"acceptedNames"}),
    "DaemonSetSpec": frozenset({"updateStrategy"}),
    "DeploymentSpec": frozenset({"strategy"}),
    "Endpoint": frozenset({"conditions"}),
    "EphemeralContainer": frozenset({"resources"}),
    "Event": frozenset({"source", "deprecatedSource", "regarding"}),
    "IngressStatus": frozenset({"loadBalancer"}),
    "NetworkPolicySpec": frozenset({"podSelector"}),
    "NodeDaemonEndpoints": frozenset({"kubeletEndpoint"}),
    "NodeStatus": frozenset({"daemonEndpoints", "nodeInfo"}),
    "PersistentVolumeClaimSpec": frozenset({"resources"}),
    "PodTemplate": frozenset({"template"}),
    "ReplicaSetSpec": frozenset({"template"}),
    "ResourceClaimSpec": frozenset({"devices"}),
    "ServiceStatus": frozenset({"loadBalancer"}),
    "StatefulSetSpec": frozenset({"updateStrategy"}),
    "TokenReviewStatus": frozenset({"user"}),
}
"""Optional fields that are structs by value."""

_ALSO_SENT: Mapping[str, Mapping[str, Any]] = {
    "ClusterRole": {"rules": None},
    "ControllerRevision": {"revision": 0},
    "DeviceClaim": {"requests": None},
    "EndpointSlice": {"ports": None},
    # The fields of both groups' Events: each sends only its own.
    "Event": {
        **dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime")),
        **dict.fromkeys(("deprecatedFirstTimestamp", "deprecatedLastTimestamp")),
        **dict.fromkeys(("reportingComponent", "reportingInstance"), ""),
    },
    "FlowSchemaSpec": {"matchingPrecedence": 0},
    "PriorityClass": {"value": 0},
    "Role": {"rules": None},
    "StatefulSetSpec": {"serviceName": ""},
}
"""Optional fields that are sent even when empty."""

_LEFT_OUT: Mapping[str, frozenset[str]] = {
    "IPAddressSpec": frozenset({"parentRef"}),
    "ValidatingAdmissionPolicyBindingSpec": frozenset({"validationActions"}),
}
"""Required fields that are left out when empty."""

_ZEROS: Mapping[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}

KEY_DEFAULTS: Mapping[str, Mapping[str, str]] = {"LocalObjectReference": {"name": ""}}
"""Optional list-map keys that have an empty default."""


def is_struct_by_value(type_name: str, field: str, *, required: bool) -> bool:
    """Return True if this struct field is present in the Go zero value."""
    if field in STRUCTS_EVERYWHERE or field in STRUCTS_OF.get(type_name, _EMPTY):
        return True
    return required and field not in _LEFT_OUT.get(type_name, _EMPTY)


def sent_when_empty(type_name: str, required: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields, without structs, of a type's zero value; `required` maps names to types."""
    left_out = _LEFT_OUT.get(type_name, _EMPTY)
    found = {name: zero_of(kind) for name, kind in required.items() if name not in left_out}
    return found | dict(_ALSO_SENT.get(type_name, {}))


def zero_of(kind: str) -> Any:
    """Return Go's zero value in JSON: empty lists and maps are null."""
    return _ZEROS.get(kind)
