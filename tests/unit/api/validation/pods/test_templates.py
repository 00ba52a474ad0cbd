# SPDX-License-Identifier: Apache-2.0
"""Rules of pod templates."""

from __future__ import annotations

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import QUALIFIED_NAME

TEMPLATE = {"template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"

CASES = [
    *creates("podtemplates", TEMPLATE, [
        ({"template.metadata.labels": {"a b": "c"}}, ['template.labels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"template.metadata.annotations": {"a b": "c"}},
            ['template.annotations: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"template.metadata.annotations": {SECCOMP: "x"}},
            ['template.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "x": must be a '
             "valid seccomp profile"]),
        ({"template.metadata.annotations": {SECCOMP: "unconfined"},
          "template.spec.securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
          ["template.spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field "
           "must match"]),
        ({"template.spec.containers": []}, ["template.spec.containers: Required value"]),
        ({"template.spec.ephemeralContainers": [{"name": "e", "image": "i"}]},
            ["template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"]),
        ({"template.spec.hostNetwork": True,
          "template.spec.containers.0.ports": [{"containerPort": 1, "hostPort": 2}]},
          ["template.spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when "
           "`hostNetwork` is true"]),
    ]),
    *updates("podtemplates", TEMPLATE, [
        ({}, {"template.spec.containers": []}, ["template.spec.containers: Required value"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_templates_are_reported(case: Case) -> None:
    assert case.found() == case.errors
