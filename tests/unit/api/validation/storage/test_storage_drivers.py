# SPDX-License-Identifier: Apache-2.0
"""Rules of CSIDrivers, CSINodes and CSIStorageCapacities."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates, updates
from tests.unit.api.validation.messages import DNS_SUBDOMAIN, QUALIFIED_NAME

DRIVER = {"spec": {}}
NODE = {"spec": {"drivers": [{"name": "d", "nodeID": "i", "topologyKeys": ["k"]}]}}
CAPACITY = {"storageClassName": "c"}
CONDITION = {"status": "StorageDegraded", "reason": "R", "message": "m"}


def tokens(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"spec.tokenRequests": list(requests)}


def driver(**fields: Any) -> dict[str, Any]:
    return {"spec.drivers": [{"name": "d", "nodeID": "i", "topologyKeys": ["k"], **fields}]}


def health(*conditions: dict[str, Any], name: str = "d") -> dict[str, Any]:
    return {"status.storageHealth": [{"name": name, "healthConditions": list(conditions)}]}


CASES = [
    *creates("csidrivers.storage.k8s.io", DRIVER, [
        ({"spec.fsGroupPolicy": "F"},
            ['spec.fsGroupPolicy: Unsupported value: "F": supported values: "File", "None", '
             '"ReadWriteOnceWithFSType"']),
        (tokens({"audience": "a"}, {"audience": "a"}), ['spec.tokenRequests[1].audience: Duplicate value: "a"']),
        (tokens({"audience": "a", "expirationSeconds": 599}),
            ["spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than "
             "10 minutes"]),
        (tokens({"audience": "a", "expirationSeconds": 2**32 + 1}),
            ["spec.tokenRequests[0].expirationSeconds: Invalid value: 4294967297: may not specify a duration "
             "larger than 2^32 seconds"]),
        ({"spec.volumeLifecycleModes": ["M"]},
            ['spec.volumeLifecycleModes: Unsupported value: "M": supported values: "Persistent", "Ephemeral"']),
        ({"spec.nodeAllocatableUpdatePeriodSeconds": 9},
            ["spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 "
             "seconds"]),
        ({"spec.serviceAccountTokenInSecrets": True},
            ["spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but "
             "no tokenRequests are specified"]),
    ]),
    *updates("csidrivers.storage.k8s.io", DRIVER, [
        ({}, {"spec.attachRequired": False}, ["spec.attachedRequired: Invalid value: false: field is immutable"]),
        ({}, {"spec.volumeLifecycleModes": ["Ephemeral"]},
            ['spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable']),
        ({}, {"spec.fsGroupPolicy": "F"},
            ['spec.fsGroupPolicy: Unsupported value: "F": supported values: "File", "None", '
             '"ReadWriteOnceWithFSType"']),
    ]),
    *creates("csinodes.storage.k8s.io", NODE, [
        (driver(name=""), ["spec.drivers[0].name: Required value"]),
        (driver(nodeID=""), ["spec.drivers[0].nodeID: Required value"]),
        (driver(nodeID="i" * 257),
            ["spec.drivers[0].nodeID: Invalid value: "
             '"iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii'
             "iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii"
             'iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii": must be 256 '
             "characters or less"]),
        (driver(allocatable={"count": -1}),
            ["spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.drivers": [{"name": "d", "nodeID": "i"}, {"name": "d", "nodeID": "j"}]},
            ['spec.drivers[1].name: Duplicate value: "d"']),
        (driver(topologyKeys=[""]),
            ["spec.drivers[0]: Required value",
             'spec.drivers[0]: Invalid value: "": name part must be non-empty',
             'spec.drivers[0]: Invalid value: "": ' + QUALIFIED_NAME]),
        (driver(topologyKeys=["k", "k"]), ['spec.drivers[0]: Duplicate value: "k"']),
        (driver(topologyKeys=["a b"]), ['spec.drivers[0]: Invalid value: "a b": ' + QUALIFIED_NAME]),
    ]),
    *updates("csinodes.storage.k8s.io", NODE, [
        ({}, driver(nodeID="j"),
            ['spec.drivers: Invalid value: {"Name":"d","NodeID":"j","TopologyKeys":["k"],"Allocatable":null}: '
             "field is immutable"]),
        ({}, {"spec.drivers": [*NODE["spec"]["drivers"], {"name": "", "nodeID": "i"}]},
            ["spec.drivers[1].name: Required value"]),
    ]),
    *updates("csinodes.storage.k8s.io", NODE, [
        (health(), health(name=""), ["status.storageHealth[0].name: Required value"]),
        (health(), {"status.storageHealth": [{"name": "d"}, {"name": "d"}]},
            ['status.storageHealth[1]: Duplicate value: "d"']),
        (health(), health(*[CONDITION] * 17),
            ["status.storageHealth[0].healthConditions: Too many: 17: must have at most 16 items"]),
        (health(), health({**CONDITION, "status": "S"}),
            ['status.storageHealth[0].healthConditions[0].status: Unsupported value: "S": supported values: '
             '"StorageDegraded", "StorageUnreachable"']),
        (health(), health({**CONDITION, "reason": "a b"}),
            ['status.storageHealth[0].healthConditions[0].reason: Invalid value: "a b": a condition reason must '
             "start with alphabetic character, optionally followed by a string of alphanumeric characters or "
             "'_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
             "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
             "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"]),
        (health(), health({**CONDITION, "reason": "r" * 257}),
            ["status.storageHealth[0].healthConditions[0].reason: Too long: may not be more than 256 bytes"]),
        (health(), health({**CONDITION, "message": "m" * 1025}),
            ["status.storageHealth[0].healthConditions[0].message: Too long: may not be more than 1024 bytes"]),
        (health(), health({**CONDITION, "accessMode": "A"}),
            ['status.storageHealth[0].healthConditions[0].accessMode: Unsupported value: "A": supported values: '
             '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"']),
        (health(), health({**CONDITION, "volumeMode": "V"}),
            ['status.storageHealth[0].healthConditions[0].volumeMode: Unsupported value: "V": supported values: '
             '"Filesystem", "Block"']),
    ], "status", ALL_FEATURES),
    *creates("csistoragecapacities.storage.k8s.io", CAPACITY, [
        ({"nodeTopology": {"matchLabels": {"a b": "c"}}},
            ['nodeTopology.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"storageClassName": "C_"}, ['storageClassName: Invalid value: "C_": ' + DNS_SUBDOMAIN]),
        ({"capacity": "-1"}, ['capacity: Invalid value: "-1": must be greater than or equal to 0']),
    ]),
    *updates("csistoragecapacities.storage.k8s.io", CAPACITY, [
        ({}, {"nodeTopology": {"matchLabels": {"a": "c"}}},
            ['nodeTopology: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable']),
        ({}, {"storageClassName": "d"}, ['storageClassName: Invalid value: "d": field is immutable']),
        ({}, {"capacity": "-1"}, ['capacity: Invalid value: "-1": must be greater than or equal to 0']),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_drivers_are_reported(case: Case) -> None:
    assert case.found() == case.errors
