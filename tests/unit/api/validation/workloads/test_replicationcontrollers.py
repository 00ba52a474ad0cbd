# SPDX-License-Identifier: Apache-2.0
"""Rules of ReplicationControllers."""

from __future__ import annotations

import pytest

from tests.unit.api.validation.cases import Case, creates, updates

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
CONTROLLER = {"spec": {"selector": {"a": "b"}, "template": TEMPLATE}}

CASES = [
    *creates("replicationcontrollers", CONTROLLER, [
        ({"spec.replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.minReadySeconds": -1},
            ["spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.template": None}, ["spec.template: Required value"]),
        ({"spec.selector": {"a": "c"}},
            ['spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`']),
        ({"spec.template.spec.containers": []}, ["spec.template.spec.containers: Required value"]),
        ({"spec.template.spec.restartPolicy": "Never"},
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
        ({"spec.template.spec.activeDeadlineSeconds": 1},
            ["spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in "
             "ReplicationController is not Supported"]),
    ]),
    *updates("replicationcontrollers", CONTROLLER, [
        ({}, {"spec.replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"spec.selector": {}, "spec.template.metadata": {}}, ["spec.selector: Required value"]),
    ]),
    *updates("replicationcontrollers", CONTROLLER, [
        ({}, {"status.replicas": -1},
            ["status.replicas: Invalid value: -1: must be greater than or equal to 0",
             "status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas",
             "status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
             "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas"]),
        ({}, {"status.replicas": 1, "status.readyReplicas": 2},
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_controllers_are_reported(case: Case) -> None:
    assert case.found() == case.errors
