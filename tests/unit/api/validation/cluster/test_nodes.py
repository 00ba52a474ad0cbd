# SPDX-License-Identifier: Apache-2.0
"""Rules of Nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates, updates
from tests.unit.api.validation.messages import CONFIG_KEY, DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, QUALIFIED_NAME

NODE: dict[str, Any] = {}
TAINTS = "scheduler.alpha.kubernetes.io/taints"
AVOID = "scheduler.alpha.kubernetes.io/preferAvoidPods"
SOURCE = {"namespace": "n", "name": "n", "kubeletConfigKey": "k"}
# Such sources are no longer stored, but may remain from old servers.
CONFIGURED = {"spec": {"configSource": {"configMap": SOURCE}}, "status": {"config": {}}}


def taints(*taints: dict[str, str]) -> dict[str, Any]:
    return {"spec.taints": list(taints)}


def annotated(key: str, value: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: value}}}


def source(**fields: str) -> dict[str, Any]:
    return {"spec.configSource": {"configMap": {**SOURCE, **fields}}}


CASES = [
    *creates("nodes", NODE, [
        (taints({"key": "a b", "effect": "NoSchedule"}),
            ['metadata.taints[0].key: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (taints({"key": "a", "value": "b c", "effect": "NoSchedule"}),
            ['metadata.taints[0].value: Invalid value: "b c": ' + LABEL_VALUE]),
        (taints({"key": "a", "effect": "E"}),
            ['metadata.taints[0].effect: Unsupported value: "E": supported values: "NoSchedule", '
             '"PreferNoSchedule", "NoExecute"']),
        (taints({"key": "a"}), ["metadata.taints[0].effect: Required value"]),
        (taints({"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoSchedule"}),
            ["metadata.taints[1]: Duplicate value: "
             '{"Key":"a","Value":"b","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and '
             "effect pair"]),
        (annotated(TAINTS, "x"),
            ['metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/taints": invalid character '
             "'x' looking for beginning of value"]),
        (annotated(TAINTS, '[{"key": "a b", "effect": "NoSchedule"}]'),
            ["metadata.annotations.scheduler.alpha.kubernetes.io/taints[0].key: Invalid value: "
             '"a b": ' + QUALIFIED_NAME]),
        (annotated(AVOID, "x"),
            ['metadata.annotations.AvoidPods: Invalid value: "scheduler.alpha.kubernetes.io/preferAvoidPods": '
             "invalid character 'x' looking for beginning of value"]),
        ({"status.capacity": {"cpu": "-1"}},
            ['status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
             'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0']),
        ({"status.allocatable": {"pods": "0.5"}},
            ['status.allocatable.pods: Invalid value: "500m": must be an integer']),
        ({"status.nodeInfo": {"swap": {"capacity": 0}}},
            ["metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"]),
        ({"spec.podCIDRs": ["x"], "spec.podCIDR": "x"},
            ['spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or '
             "2001:db8::/64)"]),
        ({"spec.podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"], "spec.podCIDR": "10.0.0.0/24"},
            ['spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR '
             "for each IP family"]),
    ]),
    *creates("nodes", NODE, [
        ({"status.declaredFeatures": ["A" * 254]},
            ["status.declaredFeatures[0]: Invalid value: "
             '"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
             "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
             'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA": invalid feature name '
             '"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
             "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
             'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA": must be no more than '
             "253 characters"]),
        ({"status.declaredFeatures": ["a"]},
            ['status.declaredFeatures[0]: Invalid value: "a": invalid feature name "a": must start with an '
             "UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
             "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"]),
        ({"status.declaredFeatures": ["A", "A"]}, ['status.declaredFeatures[1]: Duplicate value: "A"']),
        ({"status.declaredFeatures": ["B", "A"]},
            ['status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically']),
    ], ALL_FEATURES),
    *updates("nodes", NODE, [
        ({"spec.podCIDRs": ["10.0.0.0/24"], "spec.podCIDR": "10.0.0.0/24"},
         {"spec.podCIDRs": ["10.0.1.0/24"], "spec.podCIDR": "10.0.1.0/24"},
         ['spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid']),
        ({"spec.providerID": "a"}, {"spec.providerID": "b"},
            ["spec.providerID: Invalid value: null: field cannot be modified once set"]),
        ({"spec.providerID": "a"}, {}, ["spec.providerID: Invalid value: null: field cannot be cleared once set"]),
        ({}, taints({"key": "a b", "effect": "NoSchedule"}),
            ['metadata.taints[0].key: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.externalID": "a"}, {"spec.externalID": "b"}, ["spec.externalID: Forbidden: may not be updated"]),
    ]),
    *updates("nodes", NODE, [
        ({}, annotated(TAINTS, "x"),
            ['metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/taints": invalid character '
             "'x' looking for beginning of value"]),
        ({}, {"status.capacity": {"cpu": "-1"}},
            ['status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
             'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0']),
        ({}, {"status.addresses": [{"type": "Hostname", "address": "h"}] * 2},
            ['status.addresses[1]: Duplicate value: {"Type":"Hostname","Address":"h"}']),
        ({}, {"status.declaredFeatures": ["B", "A"]},
            ['status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically']),
    ], "status", ALL_FEATURES),
    *updates("nodes", CONFIGURED, [
        ({}, {"spec.configSource": {}},
            ['spec.configSource: Invalid value: {"ConfigMap":null}: exactly one reference subfield must be non-nil']),
        ({}, source(uid="u"), ["spec.configSource.configMap.uid: Forbidden: uid must not be set in spec"]),
        ({}, source(resourceVersion="1"),
            ["spec.configSource.configMap.resourceVersion: Forbidden: resourceVersion must not be set in spec"]),
        ({}, source(namespace=""), ["spec.configSource.configMap.namespace: Required value"]),
        ({}, source(namespace="N_"), ['spec.configSource.configMap.namespace: Invalid value: "N_": ' + DNS_LABEL]),
        ({}, source(name=""), ["spec.configSource.configMap.name: Required value"]),
        ({}, source(name="N_"), ['spec.configSource.configMap.name: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        ({}, source(kubeletConfigKey=""), ["spec.configSource.configMap.kubeletConfigKey: Required value"]),
        ({}, source(kubeletConfigKey="a b"),
            ['spec.configSource.configMap.kubeletConfigKey: Invalid value: "a b": ' + CONFIG_KEY]),
    ]),
    *updates("nodes", CONFIGURED, [
        ({}, {"status.config": {"assigned": {"configMap": SOURCE}}},
            ["status.config.assigned.configMap.uid: Required value",
             "status.config.assigned.configMap.resourceVersion: Required value"]),
        ({}, {"status.config": {"active": {}}},
            ['status.config.active: Invalid value: {"ConfigMap":null}: exactly one reference subfield must be '
             "non-nil"]),
        ({}, {"status.config": {"lastKnownGood": {}}},
            ['status.config.lastKnownGood: Invalid value: {"ConfigMap":null}: exactly one reference subfield '
             "must be non-nil"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_nodes_are_reported(case: Case) -> None:
    assert case.found() == case.errors
