# SPDX-License-Identifier: Apache-2.0
"""Rules of StatefulSets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, QUALIFIED_NAME

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
STATEFUL_SET = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, "serviceName": "s"}}
CLAIM = {"metadata": {"name": "v"}, "spec": {
    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}  # fmt: skip
ROLLING = "spec.updateStrategy.rollingUpdate."


def status(**fields: Any) -> dict[str, Any]:
    return {f"status.{name}": value for name, value in fields.items()}


CASES = [
    *creates("statefulsets.apps", STATEFUL_SET, [
        ({"spec.podManagementPolicy": "P"},
            ["spec.podManagementPolicy: Invalid value: \"P\": must be 'OrderedReady' or 'Parallel'"]),
        ({"spec.updateStrategy": {"type": "S"}},
            ['spec.updateStrategy: Invalid value: {"Type":"S","RollingUpdate":null}: must be '
             "'RollingUpdate' or 'OnDelete'"]),
        ({"spec.updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            ['spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only '
             "allowed for updateStrategy 'RollingUpdate'"]),
        ({ROLLING + "partition": -1},
            ["spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.persistentVolumeClaimRetentionPolicy": {"whenDeleted": "W"}},
            ['spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "W": supported values: '
             '"Retain", "Delete"']),
        ({"spec.persistentVolumeClaimRetentionPolicy": {"whenScaled": "W"}},
            ['spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "W": supported values: '
             '"Retain", "Delete"']),
        ({"spec.volumeClaimTemplates": [{**CLAIM, "spec": {"accessModes": ["ReadWriteOnce"]}}]},
            ["spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"]),
        ({"spec.replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.minReadySeconds": -1},
            ["spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.ordinals": {"start": -1}},
            ["spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.serviceName": "S_"}, ['spec.serviceName: Invalid value: "S_": ' + DNS_LABEL]),
        ({"spec.selector": None},
            ["spec.selector: Required value",
             ('spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template '
             "`labels`")]),
        ({"spec.selector": {}}, ["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"]),
        ({"spec.selector": {"matchLabels": {"a": "c"}}},
            ['spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`']),
        ({"spec.selector": {"matchLabels": {"a b": "c"}}},
            ['spec.selector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME,
             'spec.selector: Invalid value: {"matchLabels":{"a b":"c"}}']),
        ({"spec.selector": {"matchExpressions": [{"key": "a", "operator": "O"}]}},
            ['spec.selector.matchExpressions[0].operator: Invalid value: "O": not a valid selector operator',
             'spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"O"}]}']),
        ({"spec.template.spec.containers": []}, ["spec.template.spec.containers: Required value"]),
        ({"spec.template.spec.volumes": [{"name": "v", "hostPath": {"path": ""}}]},
            ["spec.template.spec.volumes[0].hostPath.path: Required value"]),
        ({"spec.template.spec.restartPolicy": "Never"},
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
        ({"spec.template.spec.activeDeadlineSeconds": 1},
            ["spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not "
             "Supported"]),
        ({"spec.template.spec.containers.0.volumeMounts": [{"name": "v", "mountPath": "/v"}]},
            ['spec.template.spec.containers[0].volumeMounts[0].name: Not found: "v"']),
    ]),
    *creates("statefulsets.apps", STATEFUL_SET, [
        ({ROLLING + "maxUnavailable": "x"},
            [('spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "x": a valid percent string must '
             "be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is "
             "'[0-9]+%')"),
             'spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "x": cannot be 0']),
        ({ROLLING + "maxUnavailable": 0},
            ["spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0"]),
        ({ROLLING + "maxUnavailable": "101%"},
            ['spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than '
             "100%"]),
    ], ALL_FEATURES),
    *updates("statefulsets.apps", STATEFUL_SET, [
        ({}, {"spec.replicas": -1}, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            ['spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Exists"}]}: field is '
             "immutable"]),
        ({}, {"spec.volumeClaimTemplates": [CLAIM]},
            ["spec.volumeClaimTemplates: Invalid value: "
             '[{"name":"v","Spec":{"AccessModes":["ReadWriteOnce"],"Selector":null,"Resources":{"Limits":n'
             'ull,"Requests":{"storage":"1"}},"VolumeName":"","StorageClassName":null,"VolumeMode":"Filesy'
             'stem","DataSource":null,"DataSourceRef":null,"VolumeAttributesClassName":null},"Status":{"Ph'
             'ase":"Pending","AccessModes":null,"Capacity":null,"Conditions":null,"AllocatedResources":nul'
             'l,"AllocatedResourceStatuses":null,"CurrentVolumeAttributesClassName":null,"ModifyVolumeStat'
             'us":null,"HealthStatus":null}}]: field is immutable']),
        ({}, {"spec.serviceName": "t"}, ['spec.serviceName: Invalid value: "t": field is immutable']),
        ({}, {"spec.podManagementPolicy": "Parallel"},
            ['spec.podManagementPolicy: Invalid value: "Parallel": field is immutable']),
    ]),
    *updates("statefulsets.apps", STATEFUL_SET, [
        ({}, status(replicas=-1),
            ["status.replicas: Invalid value: -1: must be greater than or equal to 0",
             "status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
             "status.currentReplicas: Invalid value: 0: cannot be greater than status.replicas",
             "status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas",
             "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas"]),
        ({}, status(observedGeneration=-1),
            ["status.observedGeneration: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, status(replicas=1, readyReplicas=2),
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"]),
        ({}, status(replicas=1, currentReplicas=2),
            ["status.currentReplicas: Invalid value: 2: cannot be greater than status.replicas"]),
        ({}, status(replicas=1, availableReplicas=1),
            ["status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas"]),
        (status(collisionCount=2), status(collisionCount=1),
            ["status.collisionCount: Invalid value: 1: cannot be decremented"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_stateful_sets_are_reported(case: Case) -> None:
    assert case.found() == case.errors
