# SPDX-License-Identifier: Apache-2.0
"""Rules of servers that do not allow privileged containers."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.validation import ObjectValidator
from tests.unit.api.validation.manifests import Manifest, altered, decoded

VALIDATOR = ObjectValidator(DEFAULT_FEATURES, allow_privileged=False)
PRIVILEGED = {"name": "p", "image": "i", "securityContext": {"privileged": True}}
POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
HOST_PROCESS = {"windowsOptions": {"hostProcess": True}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [PRIVILEGED], "restartPolicy": "Never"}}


def messages(resource: str, manifest: Manifest) -> list[str]:
    return [error.message() for error in VALIDATOR.validate_create(decoded(resource, manifest))]


@pytest.mark.parametrize(
    ("resource", "manifest", "path"),
    [
        ("pods", {"spec": {"containers": [PRIVILEGED]}}, "spec.containers[0].securityContext.privileged"),
        (
            "pods",
            {"spec": {**POD["spec"], "initContainers": [PRIVILEGED]}},
            "spec.initContainers[0].securityContext.privileged",
        ),
        ("podtemplates", {"template": TEMPLATE}, "template.spec.containers[0].securityContext.privileged"),
        (
            "jobs.batch",
            {"spec": {"template": TEMPLATE, "selector": {"matchLabels": {"a": "b"}}, "manualSelector": True}},
            "spec.template.spec.containers[0].securityContext.privileged",
        ),
        (
            "cronjobs.batch",
            {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}},
            "spec.jobTemplate.spec.template.spec.containers[0].securityContext.privileged",
        ),
    ],
)
def test_privileged_containers_are_forbidden(resource: str, manifest: Manifest, path: str) -> None:
    assert messages(resource, manifest) == [f"{path}: Forbidden: disallowed by cluster policy"]


@pytest.mark.parametrize("at", ["spec.securityContext", "spec.containers.0.securityContext"])
def test_host_process_containers_are_forbidden(at: str) -> None:
    pod = altered(POD, {at: HOST_PROCESS, "spec.hostNetwork": True})
    assert messages("pods", pod) == ["spec: Forbidden: hostProcess containers are disallowed by cluster policy"]


def update_messages(subresource: str, **changes: Any) -> list[str]:
    stored = {"metadata": {"resourceVersion": "1", "uid": "u"}}
    old = decoded("pods", {**POD, **stored})
    new = decoded("pods", altered({**POD, **stored}, changes))
    return [error.message() for error in VALIDATOR.validate_update(new, old, subresource)]


def test_privileged_ephemeral_containers_are_forbidden() -> None:
    assert update_messages("ephemeralcontainers", **{"spec.ephemeralContainers": [PRIVILEGED]}) == [
        "spec.ephemeralContainers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"
    ]


def test_updates_of_workloads_are_checked() -> None:
    controller = {"metadata": {"resourceVersion": "1", "uid": "u"}, "spec": {"selector": {"a": "b"}}}
    plain = {**TEMPLATE, "spec": POD["spec"]}
    old = decoded("replicationcontrollers", altered(controller, {"spec.template": plain}))
    changes = {"spec.template": {**TEMPLATE, "spec": {"containers": [PRIVILEGED]}}}
    new = decoded("replicationcontrollers", altered(controller, changes))
    assert [error.message() for error in VALIDATOR.validate_update(new, old)] == [
        "spec.template.spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"
    ]


def test_unprivileged_pods_pass() -> None:
    assert messages("pods", POD) == []
