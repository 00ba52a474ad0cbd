# SPDX-License-Identifier: Apache-2.0
"""Rows of what runs pods."""

from __future__ import annotations

from typing import Any

import pytest

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}}
SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
}
SELECTOR_TEXT = "app=web,tier in (a,b)"
BAD_SELECTOR = {"matchExpressions": [{"key": "a", "operator": "Like"}]}


def test_a_deployment_counts_its_pods(show: Any) -> None:
    status = {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}
    spec = {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE}
    row = show("deployments.apps/v1", spec=spec, status=status)
    assert list(row.values()) == ["x", "2/3", 3, 1, "5m", "c,d", "i,j", SELECTOR_TEXT]


@pytest.mark.parametrize(
    ("kind", "selector", "shown"),
    [
        ("deployments", {}, ""),
        ("deployments", BAD_SELECTOR, "<invalid>"),
        ("replicasets", {}, "<none>"),
        ("replicasets", None, "<none>"),
        ("replicasets", BAD_SELECTOR, "<error>"),
        ("daemonsets", SELECTOR, SELECTOR_TEXT),
    ],
)
def test_empty_or_invalid_selectors_are_shown(show: Any, kind: str, selector: Any, shown: str) -> None:
    assert show(f"{kind}.apps/v1", spec={"selector": selector})["Selector"] == shown


@pytest.mark.parametrize("kind", ["replicasets.apps/v1", "replicationcontrollers.v1"])
def test_replica_sets_and_replication_controllers_show_the_same_columns(show: Any, kind: str) -> None:
    row = show(kind, spec={"replicas": 4, "template": TEMPLATE}, status={"replicas": 3, "readyReplicas": 2})
    assert list(row.values()) == ["x", 4, 3, 2, "5m", "c,d", "i,j", "<none>"]


def test_a_replication_controller_may_lack_a_template(show: Any) -> None:
    row = show("replicationcontrollers.v1", spec={"selector": {"b": "2", "a": "1"}})
    assert (row["Desired"], row["Containers"], row["Selector"]) == (0, "", "a=1,b=2")


def test_stateful_set_shows_ready_and_desired(show: Any) -> None:
    row = show("statefulsets.apps/v1", spec={"replicas": 2, "template": TEMPLATE}, status={"readyReplicas": 1})
    assert list(row.values()) == ["x", "1/2", "5m", "c,d", "i,j"]


def test_a_daemon_set_counts_nodes(show: Any) -> None:
    status = {
        "desiredNumberScheduled": 5,
        "currentNumberScheduled": 4,
        "numberReady": 3,
        "updatedNumberScheduled": 2,
        "numberAvailable": 1,
    }
    row = show("daemonsets.apps/v1", spec={"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}, status=status)
    assert list(row.values())[:8] == ["x", 5, 4, 3, 2, 1, "disk=ssd", "5m"]


@pytest.mark.parametrize(
    ("owners", "shown"),
    [
        ([], "<none>"),
        ([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}], "<none>"),
        ([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}], "daemonset.apps/d"),
        ([{"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}], "pod/p"),
    ],
)
def test_a_controller_revision_names_its_controller(show: Any, owners: list[Any], shown: str) -> None:
    row = show("controllerrevisions.apps/v1", {"ownerReferences": owners}, revision=7)
    assert list(row.values()) == ["x", shown, 7, "5m"]


def conditions(*types: str) -> dict[str, Any]:
    return {"conditions": [{"type": type, "status": "True"} for type in types]}


@pytest.mark.parametrize(
    ("status", "deleted", "shown"),
    [
        ({}, False, "Running"),
        (conditions("SuccessCriteriaMet", "Complete"), True, "Complete"),
        (conditions("FailureTarget", "Failed"), False, "Failed"),
        (conditions("Suspended"), True, "Terminating"),
        (conditions("Suspended"), False, "Suspended"),
        (conditions("FailureTarget"), False, "FailureTarget"),
        (conditions("SuccessCriteriaMet"), False, "SuccessCriteriaMet"),
        ({"conditions": [{"type": "Complete", "status": "False"}]}, False, "Running"),
    ],
)
def test_job_status_is_its_terminal_condition(show: Any, status: Any, deleted: bool, shown: str) -> None:
    metadata = {"deletionTimestamp": "2026-05-10T12:00:00Z"} if deleted else {}
    assert show("jobs.batch/v1", metadata, status=status)["Status"] == shown


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({"completions": 4, "parallelism": 2}, "1/4"),
        ({"parallelism": 3}, "1/1 of 3"),
        ({"parallelism": 1}, "1/1"),
        ({}, "1/1"),
    ],
)
def test_job_completions_show_succeeded_and_required(show: Any, spec: Any, shown: str) -> None:
    assert show("jobs.batch/v1", spec=spec, status={"succeeded": 1})["Completions"] == shown


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, ""),
        ({"startTime": "2026-05-10T11:59:00Z"}, "60s"),
        ({"startTime": "2026-05-10T11:00:00Z", "completionTime": "2026-05-10T11:02:30Z"}, "2m30s"),
    ],
)
def test_job_duration_runs_until_completion(show: Any, status: Any, shown: str) -> None:
    assert show("jobs.batch/v1", status=status)["Duration"] == shown


def test_a_cron_job_shows_its_schedule(show: Any) -> None:
    spec = {"schedule": "0 3 * * *", "timeZone": "Europe/Rome", "suspend": True}
    status = {"active": [{"name": "j"}], "lastScheduleTime": "2026-05-10T03:00:00Z"}
    row = show("cronjobs.batch/v1", spec=spec, status=status)
    assert list(row.values())[:7] == ["x", "0 3 * * *", "Europe/Rome", "True", 1, "9h", "5m"]


def test_cronjob_that_never_ran_shows_none(show: Any) -> None:
    row = show("cronjobs.batch/v1", spec={"schedule": "@daily", "jobTemplate": {"spec": {"template": TEMPLATE}}})
    assert (row["Timezone"], row["Suspend"], row["Last Schedule"]) == ("<none>", "<unset>", "<none>")
    assert (row["Containers"], row["Images"], row["Selector"]) == ("c,d", "i,j", "<none>")


@pytest.mark.parametrize(
    ("spec", "shown"),
    [({"minAvailable": "50%"}, ["50%", "N/A"]), ({"maxUnavailable": 0}, ["N/A", "0"]), ({}, ["N/A", "N/A"])],
)
def test_disruption_budget_shows_its_bound(show: Any, spec: Any, shown: list[str]) -> None:
    row = show("poddisruptionbudgets.policy/v1", spec=spec, status={"disruptionsAllowed": 2})
    assert list(row.values()) == ["x", *shown, 2, "5m"]
