# SPDX-License-Identifier: Apache-2.0
"""Rules of environment variables and their sources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates
from tests.unit.api.validation.messages import CONFIG_KEY, DNS_LABEL, DNS_SUBDOMAIN, ENV_NAME

POD = {"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "emptyDir": {}}]}}
KEY = {"name": "n", "key": "k"}
FILE = {"volumeName": "v", "path": "p", "key": "K"}


def env(**source: Any) -> dict[str, Any]:
    return {"spec.containers.0.env": [{"name": "A", "valueFrom": source}]}


def env_from(**source: Any) -> dict[str, Any]:
    return {"spec.containers.0.envFrom": [source]}


CASES = [
    *creates("pods", POD, [
        ({"spec.containers.0.env": [{"name": ""}]}, ["spec.containers[0].env[0].name: Required value"]),
        ({"spec.containers.0.env": [{"name": "a=b"}]},
            ['spec.containers[0].env[0].name: Invalid value: "a=b": ' + ENV_NAME]),
        (env(),
            ['spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, '
             "`resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"]),
        ({"spec.containers.0.env": [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": KEY}}]},
            ['spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not '
             "empty"]),
        (env(secretKeyRef=KEY, configMapKeyRef=KEY),
            ['spec.containers[0].env[0].valueFrom: Invalid value: "": may not have more than one field '
             "specified at a time"]),
        (env(fieldRef={"fieldPath": ""}), ["spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Required value"]),
        (env(resourceFieldRef={"resource": "x"}),
            ['spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "x": supported '
             'values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", '
             '"requests.ephemeral-storage", "requests.memory"']),
        (env(configMapKeyRef={"name": "n"}),
            ["spec.containers[0].env[0].valueFrom.configMapKeyRef.key: Required value"]),
        (env(configMapKeyRef={"name": "N_", "key": "k"}),
            ['spec.containers[0].env[0].valueFrom.configMapKeyRef.name: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (env(secretKeyRef={"name": "n", "key": "a b"}),
            ['spec.containers[0].env[0].valueFrom.secretKeyRef.key: Invalid value: "a b": ' + CONFIG_KEY]),
        (env(fileKeyRef={**FILE, "key": "a=b"}),
            ['spec.containers[0].env[0].valueFrom.fileKeyRef.key: Invalid value: "a=b": ' + ENV_NAME]),
        (env(fileKeyRef={**FILE, "key": ""}), ["spec.containers[0].env[0].valueFrom.fileKeyRef.key: Required value"]),
        (env(fileKeyRef={**FILE, "volumeName": "V_"}),
            ['spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "V_": ' + DNS_LABEL,
             'spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: "V_"']),
        (env(fileKeyRef={**FILE, "volumeName": ""}),
            ["spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Required value",
             'spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: ""']),
        (env(fileKeyRef={**FILE, "path": "../p"}),
            ["spec.containers[0].env[0].valueFrom.fileKeyRef.path: Invalid value: \"../p\": must not contain '..'"]),
        (env(fileKeyRef={**FILE, "path": ""}),
            ["spec.containers[0].env[0].valueFrom.fileKeyRef.path: Required value"]),
        (env_from(),
            ['spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`']),
        (env_from(prefix="a=", configMapRef={"name": "n"}),
            ['spec.containers[0].envFrom[0].prefix: Invalid value: "a=": ' + ENV_NAME]),
        (env_from(configMapRef={}), ["spec.containers[0].envFrom[0].configMapRef.name: Required value"]),
        (env_from(secretRef={"name": "N_"}),
            ['spec.containers[0].envFrom[0].secretRef.name: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (env_from(secretRef={"name": "n"}, configMapRef={"name": "n"}),
            ['spec.containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time']),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_variables_are_reported(case: Case) -> None:
    assert case.found() == case.errors
