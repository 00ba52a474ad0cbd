# SPDX-License-Identifier: Apache-2.0
"""Rules of small cluster kinds: leases, classes, migrations, storage versions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates, updates
from tests.unit.api.validation.messages import DNS_1035_LABEL, DNS_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

LEASE: dict[str, Any] = {"spec": {}}
OLDEST = "OldestEmulationVersion"
CANDIDATE = {"spec": {"leaseName": "l", "binaryVersion": "1.2.0", "emulationVersion": "1.1.0", "strategy": OLDEST}}
RUNTIME = {"handler": "h"}
PRIORITY = {"value": 1}
MIGRATION = {"spec": {"resource": {"group": "g", "resource": "r"}}}
SERVER = {"apiServerID": "s", "encodingVersion": "v1", "decodableVersions": ["v1"], "servedVersions": ["v1"]}
STORAGE = {
    "metadata": {"name": "g.r"},
    "spec": {},
    "status": {"storageVersions": [SERVER], "commonEncodingVersion": "v1"},
}
CONDITION = {"type": "T", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def condition(kind: str, status: str = "True") -> dict[str, str]:
    return {**CONDITION, "type": kind, "status": status}


def server(**fields: Any) -> dict[str, Any]:
    return {"status.storageVersions": [{**SERVER, **fields}]}


CASES = [
    *creates("leases.coordination.k8s.io", LEASE, [
        ({"spec.leaseDurationSeconds": 0}, ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]),
        ({"spec.leaseTransitions": -1},
            ["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"]),
    ]),
    *updates("leases.coordination.k8s.io", LEASE, [
        ({"spec.strategy": "example.com/s"}, {"spec.strategy": "S"},
            ['spec.strategy.strategy: Unsupported value: "S": supported values: "OldestEmulationVersion"']),
        ({"spec.strategy": "example.com/s"}, {"spec.strategy": "a b/c"},
            ['spec.strategy.strategy: Invalid value: "a b/c": prefix part ' + DNS_SUBDOMAIN]),
        ({"spec.strategy": "example.com/s", "spec.preferredHolder": "h"}, {"spec.preferredHolder": "h"},
            ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]),
        ({}, {"spec.leaseTransitions": -1},
            ["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"]),
    ], "", ALL_FEATURES),
    *creates("leasecandidates.coordination.k8s.io", CANDIDATE, [
        ({"spec.leaseName": ""}, ["spec.leaseName: Required value"]),
        ({"spec.emulationVersion": "x"},
            ['spec.emulationVersion: Invalid value: "x": must be a valid semantic version',
             ("spec.emulationVersion: Required value: must be specified when `strategy` is "
             "'OldestEmulationVersion'")]),
        ({"spec.binaryVersion": ""}, ["spec.binaryVersion: Required value"]),
        ({"spec.binaryVersion": "x", "spec.emulationVersion": "", "spec.strategy": "example.com/s"},
            ['spec.binaryVersion: Invalid value: "x": must be a valid semantic version']),
        ({"spec.binaryVersion": "1.0.0"},
            ['spec.binaryVersion: Invalid value: "1.0.0": must be greater than or equal to `emulationVersion`']),
        ({"spec.strategy": ""}, ["spec.strategy: Required value"]),
        ({"spec.strategy": "S"},
            ['spec.strategy.strategy: Unsupported value: "S": supported values: "OldestEmulationVersion"']),
        ({"spec.emulationVersion": ""},
            ["spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'"]),
    ], ALL_FEATURES),
    *updates("leasecandidates.coordination.k8s.io", CANDIDATE, [
        ({}, {"spec.leaseName": "m"}, ['spec.leaseName: Invalid value: "m": field is immutable']),
        ({}, {"spec.strategy": ""}, ["spec.strategy: Required value"]),
    ], "", ALL_FEATURES),
    *creates("runtimeclasses.node.k8s.io", RUNTIME, [
        ({"handler": ""}, ["handler: Required value"]),
        ({"handler": "H_"}, ['handler: Invalid value: "H_": ' + DNS_LABEL]),
        ({"overhead": {"podFixed": {"cpu": "-1"}}},
            ['overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"scheduling": {"nodeSelector": {"a b": "c"}}},
            ['scheduling.nodeSelector: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"scheduling": {"tolerations": [{"key": "a b", "operator": "Exists"}]}},
            ['scheduling.tolerations[0].key: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"scheduling": {"tolerations": [{"key": "a", "operator": "Exists"}] * 2}},
            ["scheduling.tolerations[1]: Duplicate value: "
             '{"Key":"a","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}']),
    ]),
    *updates("runtimeclasses.node.k8s.io", RUNTIME, [
        ({}, {"handler": "i"}, ["handler: Invalid value: null: field is immutable"]),
    ]),
    *creates("priorityclasses.scheduling.k8s.io", PRIORITY, [
        ({"metadata": {"name": "system-x"}},
            ["metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use "
             "only. error: system-x is not a known system priority class"]),
        ({"metadata": {"name": "system-node-critical"}},
            ["metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use "
             "only. error: value of system-node-critical PriorityClass must be 2000001000"]),
        ({"value": 1_000_000_001},
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]),
        ({"preemptionPolicy": "P"},
            ['preemptionPolicy: Unsupported value: "P": supported values: "PreemptLowerPriority", "Never"']),
    ]),
    *updates("priorityclasses.scheduling.k8s.io", PRIORITY, [
        ({}, {"value": 2}, ["value: Forbidden: may not be changed in an update."]),
        ({}, {"preemptionPolicy": "Never"}, ['preemptionPolicy: Invalid value: "Never": field is immutable']),
    ]),
    *creates("storageversionmigrations.storagemigration.k8s.io", MIGRATION, [
        ({"spec.resource.resource": ""}, ["spec.resource.resource: Required value: resource is required to be set"]),
        ({"spec.resource.resource": "R_"}, ['spec.resource.resource: Invalid value: "R_": ' + DNS_1035_LABEL]),
        ({"spec.resource.group": "G_"}, ['spec.resource.group: Invalid value: "G_": ' + DNS_SUBDOMAIN]),
    ]),
    *updates("storageversionmigrations.storagemigration.k8s.io", MIGRATION, [
        ({}, {"spec.resource.resource": "s"},
            ['spec: Invalid value: {"Resource":{"group":"g","resource":"s"}}: field is immutable']),
    ]),
    *updates("storageversionmigrations.storagemigration.k8s.io", MIGRATION, [
        ({}, {"status.resourceVersion": "x"},
            ['status.resourceVersion: Invalid value: "x": resource version is not well formed: x']),
        ({"status.resourceVersion": "1"}, {"status.resourceVersion": "2"},
            ['status.resourceVersion: Invalid value: "2": field is immutable']),
        ({}, {"status.conditions": [{**CONDITION, "status": "S"}]},
            ['status.conditions[0].status: Unsupported value: "S": supported values: "False", "True", "Unknown"']),
        ({}, {"status.conditions": [condition("Succeeded"), condition("Failed")]},
            ["status.conditions: Invalid value: "
             '[{"type":"Succeeded","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R'
             '","message":"m"},{"type":"Failed","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z'
             '","reason":"R","message":"m"}]: Both success and failed conditions cannot be true at the same time']),
        ({"status.conditions": [condition("Succeeded")]}, {"status.conditions": [condition("Succeeded", "False")]},
            ["status.conditions: Invalid value: "
             '[{"type":"Succeeded","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"'
             'R","message":"m"}]: Success condition cannot be set to false once it is true']),
    ], "status"),
    *updates("storageversions.internal.apiserver.k8s.io", STORAGE, [
        ({}, {"status.storageVersions": [SERVER, SERVER]},
            ['status.storageVersions[1].apiServerID: Duplicate value: "s"']),
        ({}, server(apiServerID="S_"),
            ['status.storageVersions[0].apiServerID: Invalid value: "S_": ' + DNS_SUBDOMAIN]),
        ({}, {**server(encodingVersion="V_", decodableVersions=["V_"], servedVersions=[]),
              "status.commonEncodingVersion": "V_"},
              ['status.storageVersions[0].encodingVersion: Invalid value: "V_": version part: ' + DNS_1035_LABEL,
               ('status.storageVersions[0].decodableVersions[0]: Invalid value: "V_": version '
               "part: " + DNS_1035_LABEL)]),
        ({}, server(decodableVersions=["v1", "a/b/c"]),
            ['status.storageVersions[0].decodableVersions[1]: Invalid value: "a/b/c": an apiVersion is a '
             "DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an "
             "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
             "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix "
             "and '/' (e.g. 'example.com/MyVersion')"]),
        ({}, server(decodableVersions=["v1", "/v1"]),
            ['status.storageVersions[0].decodableVersions[1]: Invalid value: "/v1": group part: must be non-empty']),
        ({}, server(decodableVersions=None, servedVersions=[]),
            ["status.storageVersions[0].decodableVersions: Invalid value: null: decodableVersions must include "
             "encodingVersion v1"]),
        ({}, server(servedVersions=["V_"]),
            ['status.storageVersions[0].servedVersions[0]: Invalid value: "V_": version part: ' + DNS_1035_LABEL,
             ('status.storageVersions[0].servedVersions[0]: Invalid value: "V_": individual served version : V_ '
             "must be included in decodableVersions : [v1]")]),
        ({}, server(servedVersions=["v2"]),
            ['status.storageVersions[0].servedVersions[0]: Invalid value: "v2": individual served version : v2 '
             "must be included in decodableVersions : [v1]"]),
        ({}, {"status.commonEncodingVersion": None},
            ["status.commonEncodingVersion: Invalid value: null: the common encoding version is v1"]),
        ({}, {"status.commonEncodingVersion": "v2"},
            ['status.commonEncodingVersion: Invalid value: "v2": the actual common encoding version is v1']),
        ({}, {"status.storageVersions": []},
            ['status.commonEncodingVersion: Invalid value: "v1": should be nil if servers do not agree on the '
             "same encoding version, or if there is no server reporting the supported versions yet"]),
        ({}, {"status.conditions": [CONDITION, CONDITION]},
            ['status[1].type: Invalid value: "T": the type of the condition is not unique, it also appears in '
             "conditions[0]"]),
        ({}, {"status.conditions": [{**CONDITION, "type": "a b"}]},
            ['status[0].type: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({}, {"status.conditions": [{**CONDITION, "status": ""}]},
            ['status[0].status: Invalid value: "": name part must be non-empty',
             'status[0].status: Invalid value: "": ' + QUALIFIED_NAME]),
        ({}, {"status.conditions": [{**CONDITION, "reason": ""}]}, ["status[0].reason: Required value"]),
    ], "status", ALL_FEATURES),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_objects_are_reported(case: Case) -> None:
    assert case.found() == case.errors
