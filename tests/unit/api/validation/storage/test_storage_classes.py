# SPDX-License-Identifier: Apache-2.0
"""Rules of StorageClasses and VolumeAttributesClasses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import QUALIFIED_NAME

CLASS = {"provisioner": "p"}
ATTRIBUTES = {"driverName": "d", "parameters": {"a": "b"}}


def topologies(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"allowedTopologies": [{"matchLabelExpressions": term} for term in terms]}


CASES = [
    *creates("storageclasses.storage.k8s.io", CLASS, [
        ({"provisioner": ""}, ["provisioner: Required value"]),
        ({"provisioner": "a b"}, ['provisioner: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"parameters": {f"k{number}": "v" for number in range(513)}},
            ["parameters: Too long: may not be more than 512 bytes"]),
        ({"parameters": {"": "v"}}, ['parameters: Invalid value: "": field can not be empty.']),
        ({"parameters": {"k": "v" * 262145}}, ["parameters: Too long: may not be more than 262144 bytes"]),
        ({"reclaimPolicy": "R"}, ['reclaimPolicy: Unsupported value: "R": supported values: "Delete", "Retain"']),
        ({"volumeBindingMode": "V"},
            ['volumeBindingMode: Unsupported value: "V": supported values: "Immediate", "WaitForFirstConsumer"']),
        ({"volumeBindingMode": ""},
            ['volumeBindingMode: Unsupported value: "": supported values: "Immediate", "WaitForFirstConsumer"']),
        (topologies([{"key": "k", "values": []}]),
            ["allowedTopologies[0].matchLabelExpressions[0].values: Required value"]),
        (topologies([{"key": "k", "values": ["a", "a"]}]),
            ['allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"']),
        (topologies([{"key": "a b", "values": ["a"]}]),
            ['allowedTopologies[0].matchLabelExpressions[0].key: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (topologies([{"key": "k", "values": ["a"]}, {"key": "k", "values": ["b"]}]),
            ['allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "k"']),
        (topologies([{"key": "k", "values": ["a"]}], [{"key": "k", "values": ["a"]}]),
            ['allowedTopologies[1].matchLabelExpressions: Duplicate value: ""']),
        (topologies([]), ['allowedTopologies[0].matchLabelExpressions: Duplicate value: ""']),
    ]),
    *updates("storageclasses.storage.k8s.io", CLASS, [
        ({}, {"provisioner": "q"}, ["provisioner: Invalid value: null: field is immutable"]),
        ({}, {"parameters": {"a": "b"}}, ["parameters: Invalid value: null: field is immutable"]),
        ({}, {"reclaimPolicy": "Retain"}, ["reclaimPolicy: Invalid value: null: field is immutable"]),
        ({}, {"volumeBindingMode": "WaitForFirstConsumer"},
            ["volumeBindingMode: Invalid value: null: field is immutable"]),
    ]),
    *creates("volumeattributesclasses.storage.k8s.io", ATTRIBUTES, [
        ({"driverName": ""}, ["driverName: Required value"]),
        ({"driverName": "a b"}, ['driverName: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"parameters": {}}, ["parameters: Required value: must contain at least one key/value pair"]),
        ({"parameters": {"": "v"}}, ['parameters: Invalid value: "": field can not be empty.']),
    ]),
    *updates("volumeattributesclasses.storage.k8s.io", ATTRIBUTES, [
        ({}, {"driverName": "e"}, ["driverName: Forbidden: updates to driverName are forbidden."]),
        ({}, {"parameters": {"a": "c"}}, ["parameters: Forbidden: updates to parameters are forbidden."]),
        ({"driverName": ""}, {"driverName": ""}, ["driverName: Required value"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_classes_are_reported(case: Case) -> None:
    assert case.found() == case.errors
