# SPDX-License-Identifier: Apache-2.0
"""Rules of DaemonSets and ControllerRevisions."""

from __future__ import annotations

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import QUALIFIED_NAME

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DAEMON_SET = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
REVISION = {"revision": 1, "data": {"a": "b"}}
ROLLING = "spec.updateStrategy.rollingUpdate."

CASES = [
    *creates("daemonsets.apps", DAEMON_SET, [
        ({"spec.selector": {"matchLabels": {"a b": "c"}}},
            ['spec.selector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.selector": {"matchLabels": {"a": "c"}}},
            ['spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`']),
        ({"spec.selector": {}}, ["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"]),
        ({"spec.template.spec.containers": []}, ["spec.template.spec.containers: Required value"]),
        ({"spec.template.spec.restartPolicy": "Never"},
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
        ({"spec.template.spec.activeDeadlineSeconds": 1},
            ["spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not "
             "Supported"]),
        ({"spec.minReadySeconds": -1},
            ["spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.updateStrategy": {"type": "S"}},
            ['spec.updateStrategy: Unsupported value: {"Type":"S","RollingUpdate":null}: supported values: '
             '"RollingUpdate", "OnDelete"']),
        ({ROLLING + "maxUnavailable": "x"},
            [('spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "x": a valid percent string must '
             "be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is "
             "'[0-9]+%')"),
             "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
        ({ROLLING + "maxUnavailable": 0, ROLLING + "maxSurge": "x"},
            [('spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a '
             "numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is "
             "'[0-9]+%')"),
             "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
        ({ROLLING + "maxUnavailable": "101%"},
            ['spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than '
             "100%"]),
        ({ROLLING + "maxUnavailable": 0, ROLLING + "maxSurge": "101%"},
            ['spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "101%": must not be greater than 100%']),
        ({ROLLING + "maxUnavailable": 1, ROLLING + "maxSurge": 1},
            ["spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable "
             "is non-zero"]),
        ({ROLLING + "maxUnavailable": 0, ROLLING + "maxSurge": 0},
            ["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
        ({"spec.revisionHistoryLimit": -1},
            ["spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0"]),
    ]),
    *updates("daemonsets.apps", DAEMON_SET, [
        ({}, {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            ['spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Exists"}]}: field is '
             "immutable"]),
        ({}, {"spec.minReadySeconds": -1},
            ["spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"]),
    ]),
    *updates("daemonsets.apps", DAEMON_SET, [
        ({}, {"status.numberReady": -1},
            ["status.numberReady: Invalid value: -1: must be greater than or equal to 0"]),
        ({"status.collisionCount": 2}, {"status.collisionCount": 1},
            ["status.collisionCount: Invalid value: 1: cannot be decremented"]),
    ], "status"),
    *creates("controllerrevisions.apps", REVISION, [
        ({"revision": -1}, ["revision: Invalid value: -1: must be greater than or equal to 0"]),
        ({"data": None}, ["data: Required value: data is mandatory"]),
        ({"data": [1]}, ["data: Required value: data must be a valid JSON object"]),
    ]),
    *updates("controllerrevisions.apps", REVISION, [
        ({}, {"revision": -1}, ["revision: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"data": {"a": "c"}}, ['data: Invalid value: {"a":"c"}: field is immutable']),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_daemon_sets_are_reported(case: Case) -> None:
    assert case.found() == case.errors
