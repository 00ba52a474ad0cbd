# SPDX-License-Identifier: Apache-2.0
"""Rejected structures of the smaller groups in upstream's internal form: its names, in its own order.

Class names repeat between groups, so each structure is identified by its class here; absent values are null.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from kubeloop.api.generated import flowcontrol_v1, resource_v1
from kubeloop.api.validation.shared.go_values import ordered_object

_FIELDS: Final[dict[type, str]] = {
    flowcontrol_v1.FlowSchemaSpec: "PriorityLevelConfiguration MatchingPrecedence DistinguisherMethod Rules",
    flowcontrol_v1.PriorityLevelConfigurationReference: "Name",
    flowcontrol_v1.FlowDistinguisherMethod: "Type",
    flowcontrol_v1.PolicyRulesWithSubjects: "Subjects ResourceRules NonResourceRules",
    flowcontrol_v1.Subject: "Kind User Group ServiceAccount",
    flowcontrol_v1.UserSubject: "Name",
    flowcontrol_v1.GroupSubject: "Name",
    flowcontrol_v1.ServiceAccountSubject: "Namespace Name",
    flowcontrol_v1.ResourcePolicyRule: "Verbs APIGroups Resources ClusterScope Namespaces",
    flowcontrol_v1.NonResourcePolicyRule: "Verbs NonResourceURLs",
    flowcontrol_v1.PriorityLevelConfigurationSpec: "Type Limited Exempt",
    flowcontrol_v1.LimitedPriorityLevelConfiguration: (
        "NominalConcurrencyShares LimitResponse LendablePercent BorrowingLimitPercent"
    ),
    flowcontrol_v1.ExemptPriorityLevelConfiguration: "NominalConcurrencyShares LendablePercent",
    flowcontrol_v1.LimitResponse: "Type Queuing",
    flowcontrol_v1.QueuingConfiguration: "Queues HandSize QueueLengthLimit",
    resource_v1.ResourceClaimSpec: "Devices",
    resource_v1.DeviceClaim: "Requests Constraints Config",
    resource_v1.DeviceRequest: "Name Exactly FirstAvailable",
    resource_v1.ExactDeviceRequest: (
        "DeviceClassName Selectors AllocationMode Count AdminAccess Tolerations Capacity DerivedAttributes"
    ),
}


def to_internal_form(value: Any) -> Any:
    """Return a structure whose class is listed above, or a list of such, as an error shows it."""
    plain = _plain(value)
    return plain if plain is None else ordered_object(plain)


def _plain(value: Any) -> Any:
    kind: Any = type(value)
    if kind in _FIELDS:
        return {name: _plain(getattr(value, attribute)) for name, attribute in _attributes(kind)}
    if isinstance(value, tuple):
        return [_plain(one) for one in value] or None
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in sorted(value.items())} or None
    return value


@cache
def _attributes(kind: Any) -> tuple[tuple[str, str], ...]:
    by_name = {one.encode_name.lower(): one.name for one in msgspec.structs.fields(kind)}
    return tuple((name, by_name[name.lower()]) for name in _FIELDS[kind].split())
