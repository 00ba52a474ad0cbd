# SPDX-License-Identifier: Apache-2.0
"""Rules of PersistentVolumeClaims and of their templates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates, updates
from tests.unit.api.validation.manifests import altered
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2"}}}}
CONDITION = {"status": "Degraded", "reason": "R"}
REF = {"kind": "K", "name": "n", "apiGroup": "g"}
CLASS = "volume.beta.kubernetes.io/storage-class"
POD = {"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [
    {"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {}, **CLAIM}}}]}}  # fmt: skip
TEMPLATE = "spec.volumes.0.ephemeral.volumeClaimTemplate."


def status(**fields: Any) -> dict[str, Any]:
    return {f"status.{name}": value for name, value in fields.items()}


def health(*conditions: dict[str, str]) -> dict[str, Any]:
    return status(healthStatus={"healthConditions": list(conditions)})


CASES = [
    *creates("persistentvolumeclaims", CLAIM, [
        ({"spec.accessModes": []}, ["spec.accessModes: Required value: at least 1 access mode is required"]),
        ({"spec.accessModes": ["A"]},
            ['spec.accessModes: Unsupported value: "A": supported values: "ReadOnlyMany", "ReadWriteMany", '
             '"ReadWriteOnce", "ReadWriteOncePod"']),
        ({"spec.accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
            ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"]),
        ({"spec.selector": {"matchLabels": {"a b": "c"}}},
            ['spec.selector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.resources": {}}, ["spec.resources[storage]: Required value"]),
        ({"spec.resources.requests.storage": "0"},
            ['spec.resources[storage]: Invalid value: "0": must be greater than zero']),
        ({"spec.storageClassName": "C_"}, ['spec.storageClassName: Invalid value: "C_": ' + DNS_SUBDOMAIN]),
        ({"spec.volumeMode": "V"},
            ['spec.volumeMode: Unsupported value: "V": supported values: "Block", "Filesystem"']),
        ({"spec.dataSource": {"kind": "PersistentVolumeClaim", "name": ""}},
            ["spec.dataSource.name: Required value", "spec.dataSourceRef.name: Required value"]),
        ({"spec.dataSourceRef": {"kind": "", "name": "n", "apiGroup": "g"}},
            ["spec.dataSource.kind: Required value", "spec.dataSourceRef.kind: Required value"]),
        ({"spec.dataSourceRef": {"kind": "K", "name": "n", "apiGroup": "G_"}},
            ['spec.dataSource.apiGroup: Invalid value: "G_": ' + DNS_SUBDOMAIN,
             'spec.dataSourceRef.apiGroup: Invalid value: "G_": ' + DNS_SUBDOMAIN]),
        ({"spec.dataSourceRef": {"kind": "K", "name": "n"}},
            [("spec.dataSource: Invalid value: \"K\": must be 'PersistentVolumeClaim' when referencing the "
             "default apiGroup"),
             ("spec.dataSourceRef: Invalid value: \"K\": must be 'PersistentVolumeClaim' when referencing the "
             "default apiGroup")]),
        ({"spec.dataSourceRef": {"kind": "K", "name": "n", "apiGroup": "g"},
          "spec.dataSource": {"kind": "L", "name": "n", "apiGroup": "g"}},
          ["spec: Invalid value: {}: must match dataSourceRef"]),
        ({"spec.volumeAttributesClassName": "C_"},
            ['spec.volumeAttributesClassName: Invalid value: "C_": ' + DNS_SUBDOMAIN]),
    ]),
    *updates("persistentvolumeclaims", CLAIM, [
        ({"spec.dataSourceRef": {**REF, "namespace": "N_"}}, {"spec.dataSourceRef": {**REF, "namespace": "N_"}},
            ['spec.dataSourceRef.namespace: Invalid value: "N_": ' + DNS_LABEL]),
        ({"spec.dataSourceRef": {**REF, "namespace": "n"}, "spec.dataSource": REF},
         {"spec.dataSourceRef": {**REF, "namespace": "n"}, "spec.dataSource": REF},
         ["spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified"]),
    ], "", ALL_FEATURES),
    *creates("pods", POD, [
        ({TEMPLATE + "metadata": {"annotations": {"a b": "c"}}},
            ["spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.annotations: Invalid "
             'value: "a b": ' + QUALIFIED_NAME]),
        ({TEMPLATE + "metadata": {"labels": {"a b": "c"}}},
            ['spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.labels: Invalid value: "a '
             'b": ' + QUALIFIED_NAME]),
        ({TEMPLATE + "metadata": {"name": "n", "finalizers": ["example.com/f"]}},
            ["spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
             "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.finalizers: Forbidden: cannot be set"]),
        ({TEMPLATE + "spec.accessModes": []},
            ["spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access "
             "mode is required"]),
    ]),
    *updates("persistentvolumeclaims", CLAIM, [
        ({}, {"spec.accessModes": ["A"], "spec.volumeName": "v"},
            [('spec.accessModes: Unsupported value: "A": supported values: "ReadOnlyMany", "ReadWriteMany", '
             '"ReadWriteOnce", "ReadWriteOncePod"'),
             ("spec: Forbidden: spec is immutable after creation except resources.requests and "
             'volumeAttributesClassName for bound claims\n@@ -1,6 +1,6 @@\n {\n  "AccessModes": [\n-  '
             '"ReadWriteOnce"\n+  "A"\n  ],\n  "Selector": null,\n  "Resources": {\n')]),
        ({"metadata": {"annotations": {CLASS: "a"}}}, {"metadata": {"annotations": {CLASS: "b"}}},
            ['metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "b": field is immutable']),
        (status(phase="Bound", capacity={"storage": "1"}),
         {**status(phase="Bound", capacity={"storage": "1"}), "spec.resources.requests.storage": "1"},
         ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]),
        ({"spec.volumeAttributesClassName": "a", **status(phase="Bound", currentVolumeAttributesClassName="a")},
         {"spec.volumeAttributesClassName": "", **status(phase="Bound", currentVolumeAttributesClassName="a")},
         ["spec.volumeAttributesClassName: Forbidden: update to empty string is forbidden when "
          "status.currentVolumeAttributesClassName is not nil"]),
        ({"spec.volumeAttributesClassName": "a", **status(phase="Bound", currentVolumeAttributesClassName="a")},
         status(phase="Bound", currentVolumeAttributesClassName="a"),
         ["spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when "
          "status.currentVolumeAttributesClassName is not nil"]),
    ]),
    *updates("persistentvolumeclaims", CLAIM, [
        ({}, status(capacity={"storage": "-1"}),
            ["status.capacity[storage]: Invalid value: -1: must be a valid resource quantity"]),
        ({}, status(allocatedResourceStatuses={"storage": "S"}),
            ['status.allocatedResourceStatuses: Unsupported value: "storage": supported values: '
             '"ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", '
             '"NodeResizeInfeasible", "NodeResizePending"']),
        ({}, status(allocatedResourceStatuses={"a b": "NodeResizePending"}),
            ['status.allocatedResourceStatuses: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({}, status(allocatedResourceStatuses={"cpu": "NodeResizePending"}),
            ['status.allocatedResourceStatuses: Unsupported value: "cpu": supported values: "storage"']),
        ({}, status(allocatedResources={"cpu": "1"}),
            ['status.allocatedResources: Unsupported value: "cpu": supported values: "storage"']),
        ({}, status(allocatedResources={"storage": "-1"}),
            ["status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity"]),
    ], "status"),
    *updates("persistentvolumeclaims", CLAIM, [
        (health(), health({**CONDITION, "reason": "a b"}),
            ['status.healthStatus.healthConditions[0].reason: Invalid value: "a b": a condition reason must '
             "start with alphabetic character, optionally followed by a string of alphanumeric characters or "
             "'_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
             "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
             "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"]),
        (health(), health({**CONDITION, "reason": ""}),
            ["status.healthStatus.healthConditions[0].reason: Required value"]),
        (health(), health({**CONDITION, "reason": "r" * 257}),
            ["status.healthStatus.healthConditions[0].reason: Too long: may not be more than 256 bytes"]),
        (health(), health({**CONDITION, "status": ""}),
            ["status.healthStatus.healthConditions[0].status: Required value"]),
        (health(), health({**CONDITION, "status": "S"}),
            ['status.healthStatus.healthConditions[0].status: Unsupported value: "S": supported values: '
             '"DataLoss", "Degraded", "Inaccessible"']),
        (health(), health({**CONDITION, "message": "m" * 1025}),
            ["status.healthStatus.healthConditions[0].message: Too long: may not be more than 1024 bytes"]),
        (health(), health(CONDITION, CONDITION),
            ['status.healthStatus.healthConditions[1]: Duplicate value: {"status":"Degraded","reason":"R"}']),
        (health(), health(*[{**CONDITION, "reason": f"R{number}"} for number in range(17)]),
            ["status.healthStatus.healthConditions: Too many: 17: must have at most 16 items"]),
    ], "status", ALL_FEATURES),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_claims_are_reported(case: Case) -> None:
    assert case.found() == case.errors


def test_the_volume_mode_cannot_change() -> None:
    new = altered(CLAIM, {"spec.volumeMode": "Block"})
    spec, mode = Case("persistentvolumeclaims", new, [], CLAIM).found()
    assert spec.startswith("spec: Forbidden: spec is immutable after creation except resources.requests and ")
    assert mode == 'volumeMode: Invalid value: "Block": field is immutable'
