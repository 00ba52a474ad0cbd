# SPDX-License-Identifier: Apache-2.0
"""Validation tests of workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.validation.workloads.cron_format import schedule_error, time_zone_errors
from kubeloop.api.validation.workloads.index_ranges import IndexListError, count_indexes, overlap
from tests.unit.api.validation.manifests import altered, create_problems, update_problems

LABELS = {"app": "a"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
SET: dict[str, Any] = {"spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}}
DEPLOYMENTS, REPLICA_SETS = "deployments.apps", "replicasets.apps"
STATEFUL, DAEMONS = "statefulsets.apps", "daemonsets.apps"
JOB: dict[str, Any] = {
    "metadata": {"uid": "u"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}},
}
CRON: dict[str, Any] = {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": JOB["spec"]}}}


@pytest.mark.parametrize("kind", [DEPLOYMENTS, REPLICA_SETS, STATEFUL, DAEMONS])
def test_valid_sets_pass(kind: str) -> None:
    assert create_problems(kind, SET) == []
    assert update_problems(kind, SET, SET) == []


def test_valid_jobs_pass() -> None:
    assert create_problems("jobs.batch", JOB) == []
    assert create_problems("cronjobs.batch", CRON) == []


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    (DEPLOYMENTS, {"spec.selector": None}, "spec.selector: Required value"),
    (DEPLOYMENTS, {"spec.selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
    (DEPLOYMENTS, {"spec.replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
    (DEPLOYMENTS, {"spec.template.metadata.labels": {}},
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"),
    (DEPLOYMENTS, {"spec.template.spec.restartPolicy": "Never"},
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'),
    (DEPLOYMENTS, {"spec.template.spec.activeDeadlineSeconds": 5},
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"),
    (DEPLOYMENTS, {"spec.strategy": {"type": "Recreate", "rollingUpdate": {}}},
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"),
    (DEPLOYMENTS, {"spec.strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}},
        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"),
    (DEPLOYMENTS, {"spec.progressDeadlineSeconds": 5, "spec.minReadySeconds": 5},
        "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"),
    (DEPLOYMENTS, {"spec.template.spec.ephemeralContainers": [{"name": "e", "image": "x"}]},
        "spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"),
    (STATEFUL, {"spec.podManagementPolicy": "Serial"},
        "spec.podManagementPolicy: Invalid value: \"Serial\": must be 'OrderedReady' or 'Parallel'"),
    (STATEFUL, {"spec.updateStrategy": {"type": "Recreate"}}, "spec.updateStrategy: Invalid value: "
        "{\"Type\":\"Recreate\",\"RollingUpdate\":null}: must be 'RollingUpdate' or 'OnDelete'"),
    (STATEFUL, {"spec.ordinals": {"start": -1}},
        "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"),
    (STATEFUL, {"spec.volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}]},
        "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required"),
    (STATEFUL, {"spec.updateStrategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
        'spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%'),
    (DAEMONS, {"spec.updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}},
        "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"),
    (DAEMONS, {"spec.updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
        "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fault", "problem"), FAULTS)
def test_invalid_sets_are_reported(kind: str, fault: dict[str, Any], problem: str) -> None:
    assert problem in create_problems(kind, altered(SET, fault))


@pytest.mark.parametrize("kind", [DEPLOYMENTS, REPLICA_SETS, STATEFUL, DAEMONS])
def test_selector_is_immutable(kind: str) -> None:
    wider = {"app": "a", "b": "c"}
    after = altered(SET, {"spec.selector.matchLabels": wider, "spec.template.metadata.labels": wider})
    assert update_problems(kind, SET, after) == [
        'spec.selector: Invalid value: {"matchLabels":{"app":"a","b":"c"}}: field is immutable'
    ]


def test_claim_templates_provide_volumes() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    mount = {"name": "data", "mountPath": "/data"}
    whole = altered(SET, {
        "spec.volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        "spec.template.spec.containers.0.volumeMounts": [mount],
    })  # fmt: skip
    assert create_problems(STATEFUL, whole) == []


def test_status_counts_are_consistent() -> None:
    status = altered(SET, {"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}})
    assert update_problems(REPLICA_SETS, SET, status, "status") == [
        "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
    ]


def test_collision_count_does_not_decrease() -> None:
    before = altered(SET, {"status": {"collisionCount": 2}})
    assert update_problems(DEPLOYMENTS, before, SET, "status") == [
        "status.collisionCount: Invalid value: 0: cannot be decremented"
    ]


def test_revision_has_immutable_data() -> None:
    kind, one = "controllerrevisions.apps", {"data": {"a": 1}, "revision": 1}
    assert create_problems(kind, one) == []
    assert create_problems(kind, {"data": [1]}) == ["data: Required value: data must be a valid JSON object"]
    assert create_problems(kind, {}) == ["data: Required value: data is mandatory"]
    assert update_problems(kind, one, {**one, "data": {"a": 2}}) == ['data: Invalid value: {"a":2}: field is immutable']
    assert update_problems(kind, one, {**one, "revision": 2}) == []


JOB_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"spec.template.spec.restartPolicy": "Always"},
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'),
    ({"spec.completionMode": "Indexed", "spec.parallelism": 2},
        "spec.completions: Required value: when completion mode is Indexed"),
    ({"spec.backoffLimitPerIndex": 1},
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
    ({"spec.podReplacementPolicy": "X"}, 'spec.podReplacementPolicy: Unsupported value: "X": supported values: '
        '"Failed", "TerminatingOrFailed"'),
    ({"spec.podFailurePolicy": {"rules": [{"action": "FailJob"}]}}, "spec.podFailurePolicy.rules[0]: Invalid value: "
        "specifying one of OnExitCodes and OnPodConditions is required"),
    ({"spec.podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2, 1]}}]}},
        "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1]: must be ordered"),
    ({"spec.successPolicy": {"rules": [{"succeededCount": 1}]}}, "spec.successPolicy: Invalid value: "
        '{"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires indexed completion mode'),
    ({"spec.template.metadata": {"labels": {"job-name": "other"}}}, "spec.template.metadata.labels[job-name]"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "problem"), JOB_FAULTS)
def test_invalid_jobs_are_reported(fault: dict[str, Any], problem: str) -> None:
    found = create_problems("jobs.batch", altered(JOB, fault))
    assert any(one.startswith(problem) for one in found), found


CRON_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"spec.schedule": ""}, "spec.schedule: Required value"),
    ({"spec.schedule": "TZ=UTC 0 * * * *"}, 'spec.schedule: Invalid value: "TZ=UTC 0 * * * *": '
        "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
    ({"spec.concurrencyPolicy": "x"}, 'spec.concurrencyPolicy: Unsupported value: "x": supported values: '
        '"Allow", "Forbid", "Replace"'),
    ({"spec.timeZone": "q"}, 'spec.timeZone: Invalid value: "q": unknown time zone q'),
    ({"spec.jobTemplate.spec.manualSelector": True},
        'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"'),
    ({"metadata": {"name": "a" * 53}}, f'metadata.name: Invalid value: "{"a" * 53}": '
        "must be no more than 52 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "problem"), CRON_FAULTS)
def test_invalid_cronjobs_are_reported(fault: dict[str, Any], problem: str) -> None:
    assert problem in create_problems("cronjobs.batch", altered(CRON, fault))


@pytest.mark.parametrize(
    "schedule", ["* * * * *", "0-59/5 */2 1,15 jan-DEC mon", "@hourly", "@every 1h30m", "5/10 ? * * 0"]
)
def test_valid_schedules(schedule: str) -> None:
    assert schedule_error(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
    ],
)
def test_invalid_schedules(schedule: str, problem: str) -> None:
    assert schedule_error(schedule) == problem


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Etc/GMT+1"])
def test_known_time_zones(zone: str) -> None:
    assert time_zone_errors(zone) == []


@pytest.mark.parametrize("zone", ["", "../etc/passwd", "-a", "Local", "No/Where", "a//b"])
def test_other_texts_are_invalid_time_zones(zone: str) -> None:
    assert time_zone_errors(zone)


def test_lists_of_indexes() -> None:
    assert count_indexes("", 5) == 0
    assert count_indexes("0,2-4", 5) == 4
    assert overlap("0,2-3", "1,3", 5) == 3
    assert overlap("0,2", "1,3", 5) is None


@pytest.mark.parametrize("text", ["a", "5", "3-1", "1,1", "1-2-3", "-1", "1,", " 1"])
def test_invalid_lists_of_indexes(text: str) -> None:
    with pytest.raises(IndexListError):
        count_indexes(text, 5)


def done(*conditions: str, **status: Any) -> dict[str, Any]:
    listed = [{"type": one, "status": "True"} for one in conditions]
    return altered(JOB, {"status": {"conditions": listed, **status}})


def test_finished_job_is_consistent() -> None:
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z"}
    good = done("SuccessCriteriaMet", "Complete", **times)
    assert update_problems("jobs.batch", JOB, good, "status") == []
    active = done("SuccessCriteriaMet", "Complete", active=1, **times)
    assert update_problems("jobs.batch", JOB, active, "status") == [
        "status.active: Invalid value: 1: active>0 is invalid for finished job"
    ]
    assert "status.completionTime: Required value: completionTime is required for Complete jobs" in update_problems(
        "jobs.batch", JOB, done("SuccessCriteriaMet", "Complete", startTime=times["startTime"]), "status"
    )


def test_failed_job_stays_failed() -> None:
    start = "2026-01-01T00:00:00Z"
    failed = done("FailureTarget", "Failed", startTime=start)
    assert update_problems("jobs.batch", failed, done("FailureTarget", startTime=start), "status") == [
        "status.conditions: Invalid value: cannot disable the terminal Failed=True condition"
    ]


def test_counters_only_grow() -> None:
    assert update_problems("jobs.batch", done(failed=2), done(failed=1), "status") == [
        "status.failed: Invalid value: 1: cannot decrease the failed counter"
    ]
