# SPDX-License-Identifier: Apache-2.0
"""Rules of containers: regular, init and ephemeral ones, their ports and restart rules."""

from __future__ import annotations

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, ENV_NAME

POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
C = "spec.containers.0."
EXIT = {"operator": "In", "values": [1]}
INIT = {"name": "i", "image": "i"}
EPHEMERAL = {"name": "e", "image": "i"}
PROBE = {"exec": {"command": ["x"]}}


def init(**fields: object) -> dict[str, object]:
    return {"spec.initContainers": [{**INIT, **fields}]}


def ephemeral(**fields: object) -> tuple[dict[str, object], dict[str, object]]:
    return {}, {"spec.ephemeralContainers": [{**EPHEMERAL, **fields}]}


CASES = [
    *creates("pods", POD, [
        ({"spec.containers": []}, ["spec.containers: Required value"]),
        ({C + "name": "C_"}, ['spec.containers[0].name: Invalid value: "C_": ' + DNS_LABEL]),
        ({C + "name": ""}, ["spec.containers[0].name: Required value"]),
        ({C + "image": ""}, ["spec.containers[0].image: Required value"]),
        ({C + "image": "i "},
            ['spec.containers[0].image: Invalid value: "i ": must not have leading or trailing whitespace']),
        ({"spec.containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]},
            ['spec.containers[1].name: Duplicate value: "c"']),
        ({C + "terminationMessagePolicy": "T"},
            ['spec.containers[0].terminationMessagePolicy: Unsupported value: "T": supported values: "File", '
             '"FallbackToLogsOnError"']),
        ({C + "imagePullPolicy": "P"},
            ['spec.containers[0].imagePullPolicy: Unsupported value: "P": supported values: "Always", '
             '"IfNotPresent", "Never"']),
        ({C + "ports": [{"containerPort": 1, "name": "A_"}]},
            [('spec.containers[0].ports[0].name: Invalid value: "A_": must contain only alpha-numeric characters '
             "(a-z, 0-9), and hyphens (-)"),
             'spec.containers[0].ports[0].name: Invalid value: "A_": must contain at least one letter (a-z)']),
        ({C + "ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
            ['spec.containers[0].ports[1].name: Duplicate value: "a"']),
        ({C + "ports": [{}]}, ["spec.containers[0].ports[0].containerPort: Required value"]),
        ({C + "ports": [{"containerPort": 65536}]},
            ["spec.containers[0].ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, "
             "inclusive"]),
        ({C + "ports": [{"containerPort": 1, "hostPort": 65536}]},
            ["spec.containers[0].ports[0].hostPort: Invalid value: 65536: must be between 1 and 65535, inclusive"]),
        ({C + "ports": [{"containerPort": 1, "protocol": "T"}]},
            ['spec.containers[0].ports[0].protocol: Unsupported value: "T": supported values: "SCTP", "TCP", "UDP"']),
        ({C + "ports": [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]},
            ['spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//5"']),
        ({C + "env": [{"name": "a=b"}]}, ['spec.containers[0].env[0].name: Invalid value: "a=b": ' + ENV_NAME]),
        ({C + "envFrom": [{}]},
            ['spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`']),
        ({C + "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
            ['spec.containers[0].volumeMounts[0].name: Not found: "v"']),
        ({C + "volumeDevices": [{"name": "v", "devicePath": "/v"}]},
            ['spec.containers[0].volumeDevices[0].name: Not found: "v"']),
        ({C + "resources": {"limits": {"cpu": "-1"}}},
            ['spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
             ('spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to '
             "0")]),
        ({C + "securityContext": {"runAsUser": -1}},
            ["spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and "
             "2147483647, inclusive"]),
        ({C + "lifecycle": {"preStop": {}}},
            ["spec.containers[0].lifecycle.preStop: Required value: must specify a handler type"]),
        ({C + "livenessProbe": {}},
            ["spec.containers[0].livenessProbe: Required value: must specify a handler type"]),
        ({C + "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2},
            ['spec.containers[0].resizePolicy[1]: Duplicate value: "cpu"']),
        ({C + "resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]},
            ['spec.containers[0].resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"']),
        ({C + "resizePolicy": [{"resourceName": "", "restartPolicy": "NotRequired"}]},
            ["spec.containers[0].resizePolicy: Required value"]),
        ({C + "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "R"}]},
            ['spec.containers[0].resizePolicy: Unsupported value: "R": supported values: "NotRequired", '
             '"RestartContainer"']),
        ({C + "resizePolicy": [{"resourceName": "cpu", "restartPolicy": ""}]},
            ["spec.containers[0].resizePolicy: Required value"]),
        ({"spec.restartPolicy": "Never",
          C + "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
          ["spec.containers[0].resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when "
           "pod `restartPolicy` is 'Never'"]),
        ({C + "restartPolicy": "R"},
            ['spec.containers[0].restartPolicy: Unsupported value: "R": supported values: "Always", "Never", '
             '"OnFailure"']),
        ({C + "restartPolicyRules": [{"action": "Restart", "exitCodes": EXIT}]},
            ["spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules "
             "are used"]),
        ({C + "restartPolicy": "Never", C + "restartPolicyRules": [{"action": "Restart", "exitCodes": EXIT}] * 21},
            ["spec.containers[0].restartPolicyRules: Too many: 21: must have at most 20 items"]),
        ({C + "restartPolicy": "Never", C + "restartPolicyRules": [{"action": "R", "exitCodes": EXIT}]},
            ['spec.containers[0].restartPolicyRules[0].action: Unsupported value: "R": supported values: '
             '"Restart", "RestartAllContainers"']),
        ({C + "restartPolicy": "Never", C + "restartPolicyRules": [{"action": "Restart"}]},
            ["spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified"]),
        ({C + "restartPolicy": "Never",
          C + "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "O", "values": [1]}}]},
          ['spec.containers[0].restartPolicyRules[0].exitCodes.operator: Unsupported value: "O": supported '
           'values: "In", "NotIn"']),
        ({C + "restartPolicy": "Never", C + "restartPolicyRules": [
            {"action": "Restart", "exitCodes": {"operator": "In", "values": list(range(256))}}]},
            ["spec.containers[0].restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 "
             "items"]),
        (init(name=""), ["spec.initContainers[0].name: Required value"]),
        (init(name="c"), ['spec.initContainers[0].name: Duplicate value: "c"']),
        (init(image=" i"),
            ['spec.initContainers[0].image: Invalid value: " i": must not have leading or trailing whitespace']),
        (init(restartPolicy="R"),
            ['spec.initContainers[0].restartPolicy: Unsupported value: "R": supported values: "Always", '
             '"Never", "OnFailure"']),
        (init(restartPolicyRules=[{"action": "Restart", "exitCodes": EXIT}]),
            ["spec.initContainers[0].restartPolicy: Required value: must specify restartPolicy when restart "
             "rules are used"]),
        (init(ports=[{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]),
            ['spec.initContainers[0].ports[1].hostPort: Duplicate value: "TCP//5"']),
        (init(restartPolicy="Always", lifecycle={"preStop": {}}),
            ["spec.initContainers[0].lifecycle.preStop: Required value: must specify a handler type"]),
        (init(restartPolicy="Always", readinessProbe={}),
            ["spec.initContainers[0].readinessProbe: Required value: must specify a handler type"]),
        (init(lifecycle={}),
            ["spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without "
             "restartPolicy=Always"]),
        (init(livenessProbe=PROBE),
            ["spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
             "restartPolicy=Always"]),
        (init(readinessProbe=PROBE),
            ["spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without "
             "restartPolicy=Always"]),
        (init(startupProbe=PROBE),
            ["spec.initContainers[0].startupProbe: Forbidden: may not be set for init containers without "
             "restartPolicy=Always"]),
        (init(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
            ['spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": must not '
             "be set to 'RestartContainer' for non-sidecar initContainers"]),
    ]),
    *updates("pods", POD, [
        (*ephemeral(name=""), ["spec.ephemeralContainers[0].name: Required value"]),
        (*ephemeral(name="c"), ['spec.ephemeralContainers[0].name: Duplicate value: "c"']),
        (*ephemeral(image=" i"),
            ['spec.ephemeralContainers[0].image: Invalid value: " i": must not have leading or trailing whitespace']),
        (*ephemeral(targetContainerName="d"), ['spec.ephemeralContainers[0].targetContainerName: Not found: "d"']),
        (*ephemeral(ports=[{"containerPort": 1}]),
            ["spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container"]),
        (*ephemeral(resources={"limits": {"cpu": "1"}}),
            ["spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container"]),
        (*ephemeral(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
            ["spec.ephemeralContainers[0].resizePolicy: Forbidden: cannot be set for an Ephemeral Container"]),
        (*ephemeral(restartPolicy="Always"),
            ["spec.ephemeralContainers[0].restartPolicy: Forbidden: cannot be set for an Ephemeral Container"]),
        (*ephemeral(restartPolicyRules=[{"action": "Restart", "exitCodes": EXIT}]),
            ["spec.ephemeralContainers[0].restartPolicyRules: Forbidden: cannot be set for an Ephemeral Container"]),
        (*ephemeral(livenessProbe=PROBE),
            ["spec.ephemeralContainers[0].livenessProbe: Forbidden: cannot be set for an Ephemeral Container"]),
        (*ephemeral(readinessProbe=PROBE),
            ["spec.ephemeralContainers[0].readinessProbe: Forbidden: cannot be set for an Ephemeral Container"]),
        (*ephemeral(startupProbe=PROBE),
            ["spec.ephemeralContainers[0].startupProbe: Forbidden: cannot be set for an Ephemeral Container"]),
        (*ephemeral(lifecycle={"preStop": PROBE}),
            ["spec.ephemeralContainers[0].lifecycle: Forbidden: cannot be set for an Ephemeral Container"]),
    ], "ephemeralcontainers"),
    *updates("pods", {"spec": {**POD["spec"], "volumes": [{"name": "v", "emptyDir": {}}]}}, [
        (*ephemeral(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "s"}]),
            ["spec.ephemeralContainers[0].volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral "
             "Container"]),
        (*ephemeral(volumeMounts=[{"name": "v", "mountPath": "/v", "subPathExpr": "s"}]),
            ["spec.ephemeralContainers[0].volumeMounts[0].subPathExpr: Forbidden: cannot be set for an "
             "Ephemeral Container"]),
    ], "ephemeralcontainers"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_containers_are_reported(case: Case) -> None:
    assert case.found() == case.errors
