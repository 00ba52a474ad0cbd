# SPDX-License-Identifier: Apache-2.0
"""Validation tests of storage classes, CSI drivers and nodes, capacities, attachments."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

CLASSES = "storageclasses.storage.k8s.io"
ATTRIBUTES = "volumeattributesclasses.storage.k8s.io"
DRIVERS = "csidrivers.storage.k8s.io"
NODES = "csinodes.storage.k8s.io"
CAPACITIES = "csistoragecapacities.storage.k8s.io"
ATTACHMENTS = "volumeattachments.storage.k8s.io"

ZONE = {"key": "zone", "values": ["a"]}
CLASS = {
    "provisioner": "csi.example.com",
    "parameters": {"a": "b"},
    "allowedTopologies": [{"matchLabelExpressions": [ZONE]}],
}


def test_valid_objects_pass() -> None:
    assert create_problems(CLASSES, CLASS) == []
    assert create_problems(DRIVERS, {}) == []
    assert create_problems(NODES, NODE) == []
    assert create_problems(ATTACHMENTS, ATTACHMENT) == []
    assert create_problems(ATTRIBUTES, {"driverName": "d", "parameters": {"a": "b"}}) == []
    assert create_problems(CAPACITIES, {"storageClassName": "c"}) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("provisioner", "", "provisioner: Required value"),
        ("reclaimPolicy", "Recycle", 'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", '
         '"Retain"'),
        ("volumeBindingMode", "Late", 'volumeBindingMode: Unsupported value: "Late": supported values: "Immediate", '
         '"WaitForFirstConsumer"'),
        ("parameters", {"": "x"}, 'parameters: Invalid value: "": field can not be empty.'),
        ("parameters", {str(number): "" for number in range(513)}, "parameters: Too long: may not be more than 512 "
         "bytes"),
        ("parameters", {"a": "x" * 262144}, "parameters: Too long: may not be more than 262144 bytes"),
        ("allowedTopologies", [{}], 'allowedTopologies[0].matchLabelExpressions: Duplicate value: ""'),
        ("allowedTopologies.0.matchLabelExpressions.0.values", [], "allowedTopologies[0].matchLabelExpressions["
         "0].values: Required value"),
        ("allowedTopologies.0.matchLabelExpressions.0.values", ["a", "a"], 'allowedTopologies['
         '0].matchLabelExpressions[0].values[1]: Duplicate value: "a"'),
        ("allowedTopologies.0.matchLabelExpressions", [ZONE, ZONE], 'allowedTopologies[0].matchLabelExpressions['
         '1].key: Duplicate value: "zone"'),
    ],
)  # fmt: skip
def test_a_storage_class_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(CLASSES, altered(CLASS, {path: value})) == [problem]


@pytest.mark.parametrize(
    ("field", "value"),
    [("provisioner", "other"), ("reclaimPolicy", "Retain"), ("volumeBindingMode", "WaitForFirstConsumer")],
)
def test_storage_class_parameters_are_immutable(field: str, value: str) -> None:
    assert CLASS.get(field) != value
    found = update_problems(CLASSES, CLASS, altered(CLASS, {field: value}))
    assert found == [f"{field}: Invalid value: null: field is immutable"]


def test_an_update_of_a_storage_class_is_validated_as_a_whole() -> None:
    found = update_problems(CLASSES, CLASS, altered(CLASS, {"volumeBindingMode": "Late"}))
    assert sorted(found) == [
        "volumeBindingMode: Invalid value: null: field is immutable",
        'volumeBindingMode: Unsupported value: "Late": supported values: "Immediate", "WaitForFirstConsumer"',
    ]


def test_an_attributes_class_needs_a_driver_and_parameters() -> None:
    assert create_problems(ATTRIBUTES, {}) == [
        "driverName: Required value",
        "parameters: Required value: must contain at least one key/value pair",
    ]


def test_attributes_class_is_immutable() -> None:
    old = {"driverName": "d", "parameters": {"a": "b"}}
    assert update_problems(ATTRIBUTES, old, {"driverName": "e", "parameters": {"a": "c"}}) == [
        "driverName: Forbidden: updates to driverName are forbidden.",
        "parameters: Forbidden: updates to parameters are forbidden.",
    ]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"fsGroupPolicy": "Ask"}, 'fsGroupPolicy: Unsupported value: "Ask": supported values: "File", "None", '
         '"ReadWriteOnceWithFSType"'),
        ({"volumeLifecycleModes": ["Once"]}, 'volumeLifecycleModes: Unsupported value: "Once": supported values: '
         '"Persistent", "Ephemeral"'),
        ({"tokenRequests": [{"audience": "a"}, {"audience": "a"}]}, 'tokenRequests[1].audience: Duplicate value: "a"'),
        ({"tokenRequests": [{"expirationSeconds": 599}]}, "tokenRequests[0].expirationSeconds: Invalid value: 599: "
         "may not specify a duration less than 10 minutes"),
        ({"tokenRequests": [{"expirationSeconds": 2**33}]}, "tokenRequests[0].expirationSeconds: Invalid value: "
         "8589934592: may not specify a duration larger than 2^32 seconds"),
        ({"nodeAllocatableUpdatePeriodSeconds": 9}, "nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be "
         "greater than or equal to 10 seconds"),
        ({"serviceAccountTokenInSecrets": False}, "serviceAccountTokenInSecrets: Invalid value: false: "
         "serviceAccountTokenInSecrets is set but no tokenRequests are specified"),
    ],
)  # fmt: skip
def test_a_driver_with_one_bad_field(spec: dict[str, Any], problem: str) -> None:
    assert create_problems(DRIVERS, {"spec": spec}) == [f"spec.{problem}"]


def test_attach_settings_of_a_driver_are_immutable() -> None:
    new = {"spec": {"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]}}
    assert update_problems(DRIVERS, {}, new) == [
        "spec.attachedRequired: Invalid value: false: field is immutable",
        'spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable',
    ]


NODE = {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["zone"]}]}}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("name", "", "drivers[0].name: Required value"),
        ("nodeID", "", "drivers[0].nodeID: Required value"),
        ("nodeID", "n" * 257, f'drivers[0].nodeID: Invalid value: "{"n" * 257}": must be 256 characters or less'),
        ("topologyKeys", ["a", "a"], 'drivers[0]: Duplicate value: "a"'),
        ("allocatable", {"count": -1}, "drivers[0].allocatable.count: Invalid value: -1: must be greater than or "
         "equal to 0"),
    ],
)  # fmt: skip
def test_a_node_with_one_bad_driver(path: str, value: Any, problem: str) -> None:
    assert create_problems(NODES, altered(NODE, {f"spec.drivers.0.{path}": value})) == [f"spec.{problem}"]


def test_only_the_limit_of_a_node_driver_is_mutable() -> None:
    assert update_problems(NODES, NODE, altered(NODE, {"spec.drivers.0.allocatable": {"count": 3}})) == []
    assert update_problems(NODES, NODE, {"spec": {"drivers": []}}) == []
    assert update_problems(NODES, NODE, altered(NODE, {"spec.drivers.0.nodeID": "m"})) == [
        'spec.drivers: Invalid value: {"Name":"d.example.com","NodeID":"m","TopologyKeys":["zone"],'
        '"Allocatable":null}: field is immutable'
    ]


def test_storage_health_is_validated() -> None:
    health = {"name": "d", "healthConditions": [{"status": "Odd", "reason": "", "accessMode": "A", "volumeMode": "B"}]}
    at = "status.storageHealth[0].healthConditions[0]"
    assert update_problems(NODES, NODE, altered(NODE, {"status": {"storageHealth": [health]}}), "status") == [
        f'{at}.accessMode: Unsupported value: "A": '
        'supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
        f"{at}.reason: Required value",
        f'{at}.status: Unsupported value: "Odd": supported values: "StorageDegraded", "StorageUnreachable"',
        f'{at}.volumeMode: Unsupported value: "B": supported values: "Filesystem", "Block"',
    ]


def test_capacity_is_not_negative_and_its_class_is_immutable() -> None:
    good = {"storageClassName": "c", "capacity": "1Gi"}
    negative = 'capacity: Invalid value: "-1": must be greater than or equal to 0'
    assert create_problems(CAPACITIES, {**good, "capacity": "-1"}) == [negative]
    stays = 'storageClassName: Invalid value: "d": field is immutable'
    assert update_problems(CAPACITIES, good, {**good, "storageClassName": "d"}) == [stays]
    topology = 'nodeTopology: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable'
    assert update_problems(CAPACITIES, good, {**good, "nodeTopology": {"matchLabels": {"a": "b"}}}) == [topology]


ATTACHMENT = {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.attacher", "", "spec.attacher: Required value"),
        ("spec.attacher", "a" * 64, "spec.attacher: Too long: may not be more than 63 characters"),
        ("spec.source", {}, "spec.source: Required value: must specify exactly one of inlineVolumeSpec and "
         "persistentVolumeName"),
        ("spec.source.inlineVolumeSpec", {}, "spec.source: Forbidden: must specify exactly one of inlineVolumeSpec "
         "and persistentVolumeName"),
    ],
)  # fmt: skip
def test_an_attachment_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(ATTACHMENTS, altered(ATTACHMENT, {path: value})) == [problem]


def test_attachment_spec_is_immutable() -> None:
    new = altered(ATTACHMENT, {"spec.nodeName": "m"})
    assert update_problems(ATTACHMENTS, ATTACHMENT, new) == ["spec: Invalid value: null: field is immutable"]


def test_attach_errors_are_short_with_valid_codes() -> None:
    new = altered(ATTACHMENT, {"status": {"attachError": {"message": "m" * 1025, "errorCode": -1}}})
    assert update_problems(ATTACHMENTS, ATTACHMENT, new, "status") == [
        "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        "status.attachError.message: Too long: may not be more than 1024 bytes",
    ]
