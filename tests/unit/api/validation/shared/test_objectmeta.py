# SPDX-License-Identifier: Apache-2.0
"""Rules of every object's metadata, and of conditions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, QUALIFIED_NAME

OWNER = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}
ENTRY = {"operation": "Update", "manager": "m", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}
BUDGET = {"spec": {"minAvailable": 1}}
CONDITION = {"type": "T", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
TIME = "2026-01-01T00:00:00Z"


def meta(**fields: Any) -> dict[str, Any]:
    return {"metadata": fields}


def owner(**fields: Any) -> dict[str, Any]:
    return meta(ownerReferences=[{**OWNER, **fields}])


def entry(**fields: Any) -> dict[str, Any]:
    return meta(managedFields=[{**ENTRY, **fields}])


def condition(**fields: Any) -> dict[str, Any]:
    return {"status.conditions": [{**CONDITION, **fields}]}


CASES = [
    *creates("configmaps", {}, [
        (meta(name=""), ["metadata.name: Required value: name or generateName is required"]),
        (meta(name="N_"), ['metadata.name: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (meta(generateName="N_", name="n"), ['metadata.generateName: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (meta(namespace="N_"), ['metadata.namespace: Invalid value: "N_": ' + DNS_LABEL]),
        (meta(generation=-1), ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        (meta(labels={"a b": "c"}), ['metadata.labels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (meta(labels={"a": "b c"}), ['metadata.labels: Invalid value: "b c": ' + LABEL_VALUE]),
        (meta(annotations={"a b": "c"}), ['metadata.annotations: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (meta(annotations={"a": "b" * 262144}),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"]),
        (owner(apiVersion=""), ["metadata.ownerReferences[0].apiVersion: Required value: must not be empty"]),
        (owner(kind=""), ["metadata.ownerReferences[0].kind: Required value: must not be empty"]),
        (owner(name=""), ["metadata.ownerReferences[0].name: Required value: must not be empty"]),
        (owner(uid=""), ["metadata.ownerReferences[0].uid: Required value: must not be empty"]),
        (owner(apiVersion="a/b/c"),
            ['metadata.ownerReferences[0].apiVersion: Invalid value: "a/b/c": must be <group>/<version> or '
             "<version>"]),
        (owner(apiVersion="a/b/c", name=""),
            [('metadata.ownerReferences[0].apiVersion: Invalid value: "a/b/c": must be <group>/<version> or '
             "<version>"),
             "metadata.ownerReferences[0].name: Required value: must not be empty"]),
        (owner(kind="Event"),
            ["metadata.ownerReferences[0]: Invalid value: "
             '{"apiVersion":"v1","kind":"Event","name":"n","uid":"u"}: /v1, Kind=Event is disallowed from being '
             "an owner"]),
        (meta(ownerReferences=[{**OWNER, "controller": True}, {**OWNER, "uid": "v", "controller": True}]),
            ["metadata.ownerReferences: Invalid value: "
             '[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true},{"apiVersion":"v1","k'
             'ind":"K","name":"n","uid":"v","controller":true}]: Only one reference can have Controller set to '
             'true. Found "true" in references for K/n and K/n']),
        (meta(finalizers=["f"]),
            ['metadata.finalizers[0]: Invalid value: "f": name is neither a standard finalizer name nor is it '
             "fully qualified"]),
        (meta(finalizers=["a b/c"]), ['metadata.finalizers: Invalid value: "a b/c": prefix part ' + DNS_SUBDOMAIN]),
        (meta(finalizers=["orphan", "foregroundDeletion"]),
            ['metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
             "foregroundDeletion cannot be both set"]),
        (entry(operation=""), ["metadata.managedFields[0].operation: Required value: must not be empty"]),
        (entry(operation="O"),
            ['metadata.managedFields[0].operation: Unsupported value: "O": supported values: "Apply", "Update"']),
        (entry(fieldsType="F"), ['metadata.managedFields[0].fieldsType: Invalid value: "F": must be `FieldsV1`']),
    ]),
    *updates("configmaps", {}, [
        (meta(), meta(name=""),
            ["metadata.name: Required value: name or generateName is required",
             'metadata.name: Invalid value: "": field is immutable']),
        (meta(name="a/b"), meta(name="a/b"), ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
        (meta(), meta(generateName="a/b"),
            ["metadata.generateName: Invalid value: \"a/b\": may not contain '/'",
             'metadata.generateName: Invalid value: "a/b": ' + DNS_SUBDOMAIN]),
        (meta(), meta(namespace="N_"),
            ['metadata.namespace: Invalid value: "N_": ' + DNS_LABEL,
             'metadata.namespace: Invalid value: "N_": field is immutable']),
        (meta(), meta(uid="v"), ['metadata.uid: Invalid value: "v": field is immutable']),
        (meta(), meta(creationTimestamp=TIME),
            ['metadata.creationTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable']),
        (meta(), meta(deletionTimestamp=TIME),
            ['metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable']),
        (meta(), meta(deletionGracePeriodSeconds=1),
            ["metadata.deletionGracePeriodSeconds: Invalid value: 1: field is immutable"]),
        (meta(), meta(resourceVersion=""),
            ['metadata.resourceVersion: Invalid value: "": must be specified for an update']),
        (meta(), meta(finalizers=["f"]),
            ['metadata.finalizers[0]: Invalid value: "f": name is neither a standard finalizer name nor is it '
             "fully qualified"]),
        (meta(deletionTimestamp=TIME), meta(deletionTimestamp=TIME, finalizers=["example.com/f"]),
            ["metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
             'found new finalizers []string{"example.com/f"}']),
        (meta(), meta(labels={"a b": "c"}), ['metadata.labels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (meta(), meta(annotations={"a b": "c"}), ['metadata.annotations: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (meta(), entry(manager="m" * 129),
            ["metadata.managedFields[0].manager: Too long: may not be more than 128 bytes"]),
        (meta(), entry(manager="a\nb"),
            ['metadata.managedFields[0].manager: Invalid value: "a\\nb": invalid character U+000A (at position 1)']),
        (meta(), entry(subresource="s" * 257),
            ["metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes"]),
        (meta(), owner(name=""), ["metadata.ownerReferences[0].name: Required value: must not be empty"]),
        (meta(), entry(operation=""), ["metadata.managedFields[0].operation: Required value: must not be empty"]),
    ]),
    *creates("namespaces", {}, [
        (meta(namespace="n"), ["metadata.namespace: Forbidden: not allowed on this type"]),
        (meta(name="a.b"), ['metadata.name: Invalid value: "a.b": must not contain dots']),
    ]),
    *updates("poddisruptionbudgets.policy", BUDGET, [
        ({}, {"status.conditions": [CONDITION, CONDITION]}, ['status.conditions[1]: Duplicate value: "T"']),
        ({}, condition(type=""), ["status.conditions[0].type: Required value: is required"]),
        ({}, condition(type="a b"), ['status.conditions[0].type: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({}, condition(status=""), ["status.conditions[0].status: Required value"]),
        ({}, condition(status="S"),
            ['status.conditions[0].status: Unsupported value: "S": supported values: "False", "True", "Unknown"']),
        ({}, condition(observedGeneration=-1),
            ["status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero"]),
        ({}, condition(lastTransitionTime=None), ["status.conditions[0].lastTransitionTime: Required value"]),
        ({}, condition(reason=""), ["status.conditions[0].reason: Required value"]),
        ({}, condition(reason="a b"),
            ['status.conditions[0].reason: Invalid value: "a b": a condition reason must start with alphabetic '
             "character, optionally followed by a string of alphanumeric characters or '_,:', and must end with "
             "an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or "
             "'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
             "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"]),
        ({}, condition(reason="r" * 1025),
            ["status.conditions[0].reason: Too long: may not be more than 1024 bytes"]),
        ({}, condition(message="m" * 32769),
            ["status.conditions[0].message: Too long: may not be more than 32768 bytes"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_metadata_is_reported(case: Case) -> None:
    assert case.found() == case.errors
