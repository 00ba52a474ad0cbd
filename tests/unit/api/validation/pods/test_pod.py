# SPDX-License-Identifier: Apache-2.0
"""Rules of pods beyond their spec, and of their updates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.manifests import altered
from tests.unit.api.validation.messages import QUALIFIED_NAME

POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
GATED = {"spec": {**POD["spec"], "schedulingGates": [{"name": "g"}]}}
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "m"}}
EPHEMERAL = {"name": "e", "image": "i"}
REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def terms(*keys: str) -> dict[str, Any]:
    return {REQUIRED: [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in keys]}


CASES = [
    *creates("pods", POD, [
        ({"spec.volumes": [
            {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            ["spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when "
             "serviceAccountName is not set"]),
        ({"spec.initContainers": [{"name": "i", "image": " i"}]},
            ['spec.initContainers[0].image: Invalid value: " i": must not have leading or trailing whitespace']),
        ({"spec.ephemeralContainers": [EPHEMERAL]}, ["spec.ephemeralContainers: Forbidden: cannot be set on create"]),
        ({"spec.schedulingGates": [{"name": "g"}], "spec.nodeName": "n"},
            ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"]),
    ]),
    *updates("pods", POD, [
        ({}, {"spec.containers": [*POD["spec"]["containers"], {"name": "d", "image": "i"}]},
            ["spec.containers: Forbidden: pod updates may not add or remove containers"]),
        ({}, {"spec.initContainers": [{"name": "i", "image": "i"}]},
            ["spec.initContainers: Forbidden: pod updates may not add or remove containers"]),
        ({}, {"spec.containers.0.image": ""},
            ["spec.containers[0].image: Required value",
             ("spec: Forbidden: pod updates may not change fields other than "
             "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec"
             ".tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
             '(allow it to be set to 1 if it was previously negative)\n@@ -27,7 +27,7 @@\n    "Lifecycle": '
             'null,\n    "TerminationMessagePath": "/dev/termination-log",\n    "TerminationMessagePolicy": '
             '"File",\n-   "ImagePullPolicy": "Always",\n+   "ImagePullPolicy": "IfNotPresent",\n    '
             '"SecurityContext": null,\n    "Stdin": false,\n    "StdinOnce": false,\n')]),
        ({}, {"spec.containers.0.image": " i"},
            ['spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace',
             ("spec: Forbidden: pod updates may not change fields other than "
             "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec"
             ".tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
             '(allow it to be set to 1 if it was previously negative)\n@@ -27,7 +27,7 @@\n    "Lifecycle": '
             'null,\n    "TerminationMessagePath": "/dev/termination-log",\n    "TerminationMessagePolicy": '
             '"File",\n-   "ImagePullPolicy": "Always",\n+   "ImagePullPolicy": "IfNotPresent",\n    '
             '"SecurityContext": null,\n    "Stdin": false,\n    "StdinOnce": false,\n')]),
        ({"spec.activeDeadlineSeconds": 5}, {},
            ["spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil "
             "value"]),
        ({"spec.activeDeadlineSeconds": 5}, {"spec.activeDeadlineSeconds": 6},
            ["spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"]),
        ({"spec.activeDeadlineSeconds": 5}, {"spec.activeDeadlineSeconds": -1},
            ["spec.activeDeadlineSeconds: Invalid value: -1: must be between 1 and 2147483647, inclusive",
             "spec.activeDeadlineSeconds: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
        ({"spec.tolerations": [{"key": "a", "operator": "Exists"}]}, {},
            ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]),
        ({}, {"spec.tolerations": [{"key": "a b", "operator": "Exists"}]},
            ['spec.tolerations[0].key: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({}, {"spec.schedulingGates": [{"name": "g"}]},
            ["spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"]),
    ]),
    *updates("pods", GATED, [
        ({"spec.nodeSelector": {"a": "b"}}, {"spec.nodeSelector": {"a": "c"}},
            ['spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no '
             "mutations or deletions)"]),
        (terms("a"), terms("a", "b"),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
             "Invalid value: "
             '[{"MatchExpressions":[{"Key":"a","Operator":"Exists","Values":null}],"MatchFields":null},{"M'
             'atchExpressions":[{"Key":"b","Operator":"Exists","Values":null}],"MatchFields":null}]: no '
             "additions/deletions to non-empty NodeSelectorTerms list are allowed"]),
        (terms("a"), terms("b"),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]: "
             "Invalid value: "
             '{"MatchExpressions":[{"Key":"b","Operator":"Exists","Values":null}],"MatchFields":null}: only '
             "additions are allowed (no mutations or deletions)"]),
        ({REQUIRED: [{}]}, terms("a"),
            ["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]: "
             "Invalid value: "
             '{"MatchExpressions":[{"Key":"a","Operator":"Exists","Values":null}],"MatchFields":null}: only '
             "additions are allowed (no mutations or deletions)"]),
    ]),
    *updates("pods", POD, [
        ({"metadata": MIRROR, "spec.nodeName": "n"},
         {"metadata": MIRROR, "spec.nodeName": "n", "spec.ephemeralContainers": [EPHEMERAL]},
         ["[]: Forbidden: static pods do not support ephemeral containers"]),
        ({"spec.ephemeralContainers": [EPHEMERAL]}, {},
            ['spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be removed\n']),
        ({}, {"spec.ephemeralContainers": [{**EPHEMERAL, "image": ""}]},
            ["spec.ephemeralContainers[0].image: Required value"]),
    ], "ephemeralcontainers"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_pods_are_reported(case: Case) -> None:
    assert case.found() == case.errors


def test_ephemeral_containers_cannot_change() -> None:
    old, new = (altered(POD, {"spec.ephemeralContainers": [{**EPHEMERAL, "image": image}]}) for image in ("i", "j"))
    (error,) = Case("pods", new, [], old, "ephemeralcontainers").found()
    start = 'spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be changed\n'
    assert error.startswith(start)
    assert error != start


def test_most_fields_cannot_change() -> None:
    (error,) = Case("pods", altered(POD, {"spec.hostname": "h"}), [], POD).found()
    assert error.startswith("spec: Forbidden: pod updates may not change fields other than ")
