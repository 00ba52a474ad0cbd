# SPDX-License-Identifier: Apache-2.0
"""Rules of affinity, tolerations and topology spread."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, QUALIFIED_NAME

POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}
SPREAD = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}


def node(**expression: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "k", **expression}]}]
    return {"spec.affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}  # fmt: skip


def field(**expression: Any) -> dict[str, Any]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"], **expression}]}]
    return {"spec.affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}  # fmt: skip


def preferred(weight: int, **preference: Any) -> dict[str, Any]:
    term = {"weight": weight, "preference": preference}
    return {"spec.affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def pods(**term: Any) -> dict[str, Any]:
    return {"spec.affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", **term}]}}}  # fmt: skip


def anti(weight: int, **term: Any) -> dict[str, Any]:
    return {"spec.affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": weight, "podAffinityTerm": {"topologyKey": "z", **term}}]}}}  # fmt: skip


def toleration(**fields: Any) -> dict[str, Any]:
    return {"spec.tolerations": [fields]}


def spread(**fields: Any) -> dict[str, Any]:
    return {"spec.topologySpreadConstraints": [{**SPREAD, **fields}]}


CASES = [
    *creates("pods", POD, [
        ({"spec.affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}},
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
             "Required value: must have at least one node selector term"]),
        (node(operator="In"),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms["
             "0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or "
             "'NotIn'"]),
        (node(operator="Exists", values=["a"]),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms["
             "0].matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or "
             "'DoesNotExist'"]),
        (node(operator="Gt", values=["1", "2"]),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms["
             "0].matchExpressions[0].values: Required value: must be specified single value when `operator` is "
             "'Lt' or 'Gt'"]),
        (node(operator="O"),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms["
             '0].matchExpressions[0].operator: Invalid value: "O": not a valid selector operator']),
        (node(key="a b", operator="Exists"),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.n"
             'odeSelectorTerms[0].matchExpressions[0].key: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (node(operator="In", values=["a b"]),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.node"
             'SelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "a b": ' + LABEL_VALUE]),
        (field(operator="Exists"),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms["
             '0].matchFields[0].operator: Invalid value: "Exists": not a valid selector operator']),
        (field(values=[]),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms["
             "0].matchFields[0].values: Required value: must be only one value when `operator` is 'In' or "
             "'NotIn' for node field selector"]),
        (field(key="metadata.uid"),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms["
             '0].matchFields[0].key: Invalid value: "metadata.uid": not a valid field selector key']),
        (field(values=["N_"]),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.no"
             'deSelectorTerms[0].matchFields[0].values[0]: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (preferred(0),
            ["spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid "
             "value: 0: must be in the range 1-100"]),
        (preferred(1, matchExpressions=[{"key": "k", "operator": "O"}]),
            ["spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.mat"
             'chExpressions[0].operator: Invalid value: "O": not a valid selector operator']),
        (pods(labelSelector={"matchLabels": {"a b": "c"}}),
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
             '.labelSelector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (pods(namespaceSelector={"matchLabels": {"a b": "c"}}),
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
             '.namespaceSelector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (pods(namespaces=["N_"]),
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].name"
             'space: Invalid value: "N_": ' + DNS_LABEL]),
        (pods(topologyKey=""),
            [("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required "
             "value: can not be empty"),
             ("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid "
             'value: "": name part must be non-empty'),
             ("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
             '.topologyKey: Invalid value: "": ' + QUALIFIED_NAME)]),
        (pods(topologyKey="a b"),
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
             '.topologyKey: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (pods(matchLabelKeys=["k"]),
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: "
             "Forbidden: must not be specified when labelSelector is not set"]),
        (pods(mismatchLabelKeys=["k"]),
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].mismatchLabelKeys: "
             "Forbidden: must not be specified when labelSelector is not set"]),
        (pods(matchLabelKeys=["a b"], labelSelector=SELECTOR),
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
             '.matchLabelKeys[0]: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (pods(matchLabelKeys=["k"], mismatchLabelKeys=["k"], labelSelector=SELECTOR),
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[0]: "
             'Invalid value: "k": exists in both matchLabelKeys and mismatchLabelKeys']),
        ({"metadata": {"labels": {"a": "b"}}, **pods(matchLabelKeys=["a"], labelSelector=SELECTOR)},
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0][0]: Invalid value: "
             '"a": exists in both matchLabelKeys and labelSelector']),
        (anti(101),
            ["spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid "
             "value: 101: must be in the range 1-100"]),
        (anti(1, topologyKey=""),
            [("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinity"
             "Term.topologyKey: Required value: can not be empty"),
             ("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinity"
             'Term.topologyKey: Invalid value: "": name part must be non-empty'),
             ("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecuti"
             'on[0].podAffinityTerm.topologyKey: Invalid value: "": ' + QUALIFIED_NAME)]),
        (toleration(key="a b", operator="Exists"),
            ['spec.tolerations[0].key: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (toleration(operator="Equal"),
            ['spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is '
             'empty, which means "match all values and all keys"']),
        (toleration(key="a", tolerationSeconds=1),
            ["spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when "
             "`tolerationSeconds` is set"]),
        (toleration(key="a", value="a b"), ['spec.tolerations[0].operator: Invalid value: "a b": ' + LABEL_VALUE]),
        (toleration(key="a", operator="Exists", value="v"),
            ["spec.tolerations[0].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'"]),
        (toleration(key="a", operator="O"),
            ['spec.tolerations[0].operator: Unsupported value: "O": supported values: "Equal", "Exists"']),
        (toleration(key="a", effect="E"),
            ['spec.tolerations[0].effect: Unsupported value: "E": supported values: "NoSchedule", '
             '"PreferNoSchedule", "NoExecute"']),
        (spread(maxSkew=0),
            ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"]),
        (spread(topologyKey=""), ["spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty"]),
        (spread(whenUnsatisfiable="W"),
            ['spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "W": supported values: '
             '"DoNotSchedule", "ScheduleAnyway"']),
        ({"spec.topologySpreadConstraints": [SPREAD, SPREAD]},
            ['spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, '
             'DoNotSchedule}"']),
        (spread(minDomains=0),
            ["spec.topologySpreadConstraints[0].minDomains: Invalid value: 0: must be greater than zero"]),
        (spread(minDomains=1, whenUnsatisfiable="ScheduleAnyway"),
            ["spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if "
             "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"]),
        (spread(nodeAffinityPolicy="P"),
            ['spec.topologySpreadConstraints[0].nodeAffinityPolicy: Unsupported value: "P": supported values: '
             '"Honor", "Ignore"']),
        (spread(nodeTaintsPolicy="P"),
            ['spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "P": supported values: '
             '"Honor", "Ignore"']),
        (spread(matchLabelKeys=["k"]),
            ["spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when "
             "labelSelector is not set"]),
        (spread(labelSelector={"matchLabels": {"a b": "c"}}),
            ['spec.topologySpreadConstraints[0].labelSelector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_constraints_are_reported(case: Case) -> None:
    assert case.found() == case.errors
