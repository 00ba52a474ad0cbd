# SPDX-License-Identifier: Apache-2.0
"""Rules of a pod's well-known annotations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import QUALIFIED_NAME

POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
MIRROR = "kubernetes.io/config.mirror"
TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_C = "container.seccomp.security.alpha.kubernetes.io/c"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def annotated(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    fields = {f"spec.{name}": value for name, value in spec.items()}
    return {"metadata": {"annotations": annotations}, **fields}


def with_context(annotations: dict[str, str], **context: Any) -> dict[str, Any]:
    return {**annotated(annotations), "spec.containers.0.securityContext": context}


CASES = [
    *creates("pods", POD, [
        (annotated({MIRROR: "m"}),
            ['metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "m": must set spec.nodeName if '
             "mirror pod annotation is set"]),
        (annotated({TOLERATIONS: "x"}),
            ['metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/tolerations": invalid '
             "character 'x' looking for beginning of value"]),
        (annotated({TOLERATIONS: '[{"key": "a b", "operator": "Exists"}]'}),
            ["metadata.annotations.scheduler.alpha.kubernetes.io/tolerations[0].key: Invalid "
             'value: "a b": ' + QUALIFIED_NAME]),
        (annotated({TOLERATIONS: "[1]"}),
            ['metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/tolerations": json: cannot '
             "unmarshal number into Go value of type core.Toleration"]),
        (annotated({TOLERATIONS: '[{"tolerationSeconds": "a"}]'}),
            ['metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/tolerations": json: cannot '
             "unmarshal string into Go struct field Toleration.TolerationSeconds of type int64"]),
        (annotated({TOLERATIONS: '[{"key": 1}]'}),
            ['metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/tolerations": json: cannot '
             "unmarshal number into Go struct field Toleration.Key of type string"]),
        (annotated({COST: "x"}),
            ['metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "x": must be a '
             "32bit integer"]),
        (annotated({COST: "2147483648"}),
            ['metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "2147483648": '
             "must be a 32bit integer"]),
        (annotated({SECCOMP: "x"}),
            ['metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "x": must be a '
             "valid seccomp profile"]),
        (annotated({SECCOMP_C: "x"}),
            ['metadata.annotations.container.seccomp.security.alpha.kubernetes.io/c: Invalid value: "x": must '
             "be a valid seccomp profile"]),
        (annotated({SECCOMP: "localhost//x"}),
            ['metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "/x": must be a '
             "relative path"]),
        (annotated({APP_ARMOR + "d": "unconfined"}),
            ['metadata.annotations[container.apparmor.security.beta.kubernetes.io/d]: Invalid value: "d": '
             "container not found"]),
        (annotated({APP_ARMOR + "c": "x"}),
            ['metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Invalid value: "x": '
             'invalid AppArmor profile name: "x"']),
        (annotated({SECCOMP: "unconfined"}, securityContext={"seccompProfile": {"type": "RuntimeDefault"}}),
            ["spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"]),
        (with_context({SECCOMP_C: "unconfined"}, seccompProfile={"type": "RuntimeDefault"}),
            ["spec.containers[0].securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and "
             "field must match"]),
        (with_context({SECCOMP_C: "localhost/a"}, seccompProfile={"type": "Localhost", "localhostProfile": "b"}),
            ["spec.containers[0].securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in "
             "annotation and field must match"]),
        (with_context({APP_ARMOR + "c": "unconfined"}, appArmorProfile={"type": "RuntimeDefault"}),
            ["spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation "
             "and field must match"]),
        (with_context({APP_ARMOR + "c": "localhost/a"}, appArmorProfile={
            "type": "Localhost", "localhostProfile": "b"}),
            ["spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile "
             "in annotation and field must match"]),
    ]),
    *updates("pods", POD, [
        (annotated({APP_ARMOR + "c": "unconfined"}), {},
            ["metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: may not remove "
             "or update AppArmor annotations"]),
        (annotated({APP_ARMOR + "c": "unconfined"}), annotated({APP_ARMOR + "c": "runtime/default"}),
            ["metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: may not remove "
             "or update AppArmor annotations"]),
        ({}, annotated({APP_ARMOR + "c": "unconfined"}),
            ["metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: may not add "
             "AppArmor annotations"]),
        (annotated({MIRROR: "m"}, nodeName="n"), annotated({}, nodeName="n"),
            ["metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod "
             "annotation"]),
        (annotated({}, nodeName="n"), annotated({MIRROR: "m"}, nodeName="n"),
            ["metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation"]),
        ({}, annotated({COST: "x"}),
            ['metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "x": must be a '
             "32bit integer"]),
        ({}, annotated({COST: "x"}, activeDeadlineSeconds=5),
            ['metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "x": must be a '
             "32bit integer"]),
    ]),
    *updates("pods", POD, [
        ({}, annotated({COST: "x"}),
            ['metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "x": must be a '
             "32bit integer"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_annotations_are_reported(case: Case) -> None:
    assert case.found() == case.errors
