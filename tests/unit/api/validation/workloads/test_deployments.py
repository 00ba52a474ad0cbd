# SPDX-License-Identifier: Apache-2.0
"""Rules of Deployments and ReplicaSets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import QUALIFIED_NAME

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DEPLOYMENT = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
REPLICA_SET = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
ROLLING = "spec.strategy.rollingUpdate."


def status(**fields: Any) -> dict[str, Any]:
    return {f"status.{name}": value for name, value in fields.items()}


CASES = [
    *creates("deployments.apps", DEPLOYMENT, [
        ({"spec.replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.selector": None},
            ["spec.selector: Required value",
             ('spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template '
             "`labels`")]),
        ({"spec.selector": {}}, ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]),
        ({"spec.selector": {"matchLabels": {"a": "c"}}},
            ['spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`']),
        ({"spec.selector": {"matchLabels": {"a b": "c"}}},
            ['spec.selector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME,
             'spec.selector: Invalid value: {"matchLabels":{"a b":"c"}}: invalid label selector']),
        ({"spec.selector": {"matchExpressions": [{"key": "a", "operator": "O"}]}},
            ['spec.selector.matchExpressions[0].operator: Invalid value: "O": not a valid selector operator',
             ('spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"O"}]}: invalid label '
             "selector")]),
        ({"spec.template.spec.containers": []}, ["spec.template.spec.containers: Required value"]),
        ({"spec.template.spec.restartPolicy": "Never"},
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
        ({"spec.template.spec.activeDeadlineSeconds": 1},
            ["spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not "
             "Supported"]),
        ({"spec.strategy": {"type": "S"}},
            ['spec.strategy: Unsupported value: {"Type":"S","RollingUpdate":null}: supported values: '
             '"Recreate", "RollingUpdate"']),
        ({"spec.strategy": {"type": "S", "rollingUpdate": {"maxSurge": "*"}}},
            ['spec.strategy: Unsupported value: {"Type":"S","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"*"}}: '
             'supported values: "Recreate", "RollingUpdate"']),
        ({"spec.strategy": {"type": "Recreate", "rollingUpdate": {}}},
            ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"]),
        ({ROLLING + "maxUnavailable": "x"},
            ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "x": a valid percent string must be a '
             "numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is "
             "'[0-9]+%')"]),
        ({ROLLING + "maxSurge": -1},
            ["spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0"]),
        ({ROLLING + "maxUnavailable": 0, ROLLING + "maxSurge": 0},
            ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"]),
        ({ROLLING + "maxUnavailable": "101%"},
            ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%']),
        ({"spec.minReadySeconds": -1},
            ["spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.revisionHistoryLimit": -1},
            ["spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.progressDeadlineSeconds": -1},
            ["spec.progressDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
             "spec.progressDeadlineSeconds: Invalid value: -1: must be greater than minReadySeconds"]),
        ({"spec.progressDeadlineSeconds": 5, "spec.minReadySeconds": 5},
            ["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"]),
    ]),
    *updates("deployments.apps", DEPLOYMENT, [
        ({}, {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            ['spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Exists"}]}: field is '
             "immutable"]),
        ({}, {"spec.replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
    ]),
    *updates("deployments.apps", DEPLOYMENT, [
        ({}, status(observedGeneration=-1),
            ["status.observedGeneration: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, status(unavailableReplicas=-1),
            ["status.unavailableReplicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, status(terminatingReplicas=-1),
            ["status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, status(replicas=1, updatedReplicas=2),
            ["status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas"]),
        ({}, status(replicas=1, readyReplicas=2),
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"]),
        ({}, status(replicas=1, availableReplicas=1),
            ["status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas"]),
        (status(collisionCount=2), status(collisionCount=1),
            ["status.collisionCount: Invalid value: 1: cannot be decremented"]),
        (status(collisionCount=2), {}, ["status.collisionCount: Invalid value: 0: cannot be decremented"]),
    ], "status"),
    *creates("replicasets.apps", REPLICA_SET, [
        ({"spec.replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.minReadySeconds": -1},
            ["spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.selector": {}}, ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]),
        ({"spec.template.spec.containers": []}, ["spec.template.spec.containers: Required value"]),
    ]),
    *updates("replicasets.apps", REPLICA_SET, [
        ({}, {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            ['spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Exists"}]}: field is '
             "immutable"]),
        ({}, {"spec.replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
    ]),
    *updates("replicasets.apps", REPLICA_SET, [
        ({}, status(replicas=-1),
            ["status.replicas: Invalid value: -1: must be greater than or equal to 0",
             "status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas",
             "status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
             "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas"]),
        ({}, status(observedGeneration=-1),
            ["status.observedGeneration: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, status(terminatingReplicas=-1),
            ["status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, status(replicas=1, fullyLabeledReplicas=2),
            ["status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas"]),
        ({}, status(replicas=1, availableReplicas=1),
            ["status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_deployments_are_reported(case: Case) -> None:
    assert case.found() == case.errors
