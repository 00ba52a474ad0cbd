# SPDX-License-Identifier: Apache-2.0
"""Tests of the container columns of a pod's row."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.apiserver.response.tables import conditions_of


def running(name: str = "a", ready: bool = True, **more: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "state": {"running": {}}, **more}


def waiting(reason: str, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason}}, **more}


def ended(code: int, reason: str = "", name: str = "a", signal: int = 0, **more: Any) -> dict[str, Any]:
    state = {"exitCode": code, "reason": reason, "signal": signal}
    return {"name": name, "state": {"terminated": state}, **more}


def condition(type: str, status: str = "True", reason: str = "") -> dict[str, Any]:
    return {"type": type, "status": status, "reason": reason}


def spec(*names: str, init: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    return {"containers": [{"name": name, "image": "i"} for name in names], "initContainers": list(init), **more}


SIDECAR = {"name": "side", "restartPolicy": "Always"}
SETUP = {"name": "setup"}


def test_new_pod_shows_its_phase(show: Any) -> None:
    assert list(show("pods.v1", spec=spec("a"), status={"phase": "Pending"}).values()) == [
        "x",
        "0/1",
        "Pending",
        "0",
        "5m",
        "<none>",
        "<none>",
        "<none>",
        "<none>",
    ]


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Running", "containerStatuses": [running()]}, "Running"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {"phase": "Pending", "conditions": [condition("PodScheduled", "False", "SchedulingGated")]},
            "SchedulingGated",
        ),
        ({"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}, "CrashLoopBackOff"),
        ({"phase": "Failed", "containerStatuses": [ended(1, "Error")]}, "Error"),
        ({"phase": "Failed", "containerStatuses": [ended(3)]}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [ended(137, signal=9)]}, "Signal:9"),
        ({"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}, "Completed"),
    ],
)
def test_status_is_derived_from_container_states(show: Any, status: dict[str, Any], shown: str) -> None:
    assert show("pods.v1", spec=spec("a"), status=status)["Status"] == shown


@pytest.mark.parametrize(
    ("statuses", "conditions", "shown"),
    [
        ([ended(0, "Completed", "a"), running("b")], [condition("Ready")], "Running"),
        ([ended(0, "Completed", "a"), running("b")], [], "NotReady"),
        ([ended(0, "Completed", "a"), ended(2, "Error", "b")], [], "Error"),
    ],
)
def test_completed_container_does_not_hide_the_others(
    show: Any, statuses: list[Any], conditions: list[Any], shown: str
) -> None:
    status = {"phase": "Running", "containerStatuses": statuses, "conditions": conditions}
    assert show("pods.v1", spec=spec("a", "b"), status=status)["Status"] == shown


@pytest.mark.parametrize(
    ("init_statuses", "shown"),
    [
        ([waiting("PodInitializing", "setup")], "Init:0/2"),
        ([waiting("ImagePullBackOff", "setup")], "Init:ImagePullBackOff"),
        ([ended(1, "Error", "setup")], "Init:Error"),
        ([ended(4, name="setup")], "Init:ExitCode:4"),
        ([ended(0, signal=0, name="setup"), running("other")], "Init:1/2"),
        ([ended(143, signal=15, name="setup")], "Init:Signal:15"),
        ([ended(0, name="setup"), ended(0, name="other")], "Pending"),
    ],
)
def test_init_container_problems_are_shown_first(show: Any, init_statuses: list[Any], shown: str) -> None:
    status = {"phase": "Pending", "initContainerStatuses": init_statuses}
    assert show("pods.v1", spec=spec("a", init=(SETUP, {"name": "other"})), status=status)["Status"] == shown


def test_started_sidecar_counts_as_container(show: Any) -> None:
    status = {
        "phase": "Running",
        "initContainerStatuses": [running("side", started=True, restartCount=2)],
        "containerStatuses": [running("a", restartCount=1)],
    }
    row = show("pods.v1", spec=spec("a", init=(SIDECAR,)), status=status)
    assert (row["Ready"], row["Status"], row["Restarts"]) == ("2/2", "Running", "3")


def test_unstarted_sidecar_blocks_initialization(show: Any) -> None:
    status = {"phase": "Pending", "initContainerStatuses": [running("side", ready=False, started=False)]}
    row = show("pods.v1", spec=spec("a", init=(SIDECAR,)), status=status)
    assert (row["Ready"], row["Status"]) == ("0/2", "Init:0/1")


def test_initialized_pod_shows_its_containers_although_an_init_container_restarts(show: Any) -> None:
    status = {
        "phase": "Running",
        "conditions": [condition("Initialized")],
        "initContainerStatuses": [running("setup", restartCount=7)],
        "containerStatuses": [running("a", restartCount=1)],
    }
    row = show("pods.v1", spec=spec("a", init=(SETUP,)), status=status)
    # The containers' state does not name a reason, so that of the init container stays.
    assert (row["Ready"], row["Status"], row["Restarts"]) == ("1/1", "Init:0/1", "1")


def test_restarts_show_the_last_restart_time(show: Any) -> None:
    def before(minutes: int) -> dict[str, Any]:
        return {"terminated": {"exitCode": 1, "finishedAt": f"2026-05-10T11:{60 - minutes}:00Z"}}

    statuses = [running("a", restartCount=2, lastState=before(9)), running("b", restartCount=1, lastState=before(4))]
    row = show("pods.v1", spec=spec("a", "b"), status={"phase": "Running", "containerStatuses": statuses})
    assert row["Restarts"] == "3 (4m ago)"


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
    ],
)
def test_deleted_pod_is_terminating_unless_finished(show: Any, status: dict[str, Any], shown: str) -> None:
    assert show("pods.v1", {"deletionTimestamp": "2026-05-10T12:00:30Z"}, status=status)["Status"] == shown


def test_wide_output_has_addresses_nodes_and_gates(show: Any) -> None:
    status = {
        "podIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}],
        "nominatedNodeName": "n2",
        "conditions": [condition("one"), condition("two", "False")],
    }
    gates = [{"conditionType": kind} for kind in ("one", "two", "three")]
    row = show("pods.v1", spec=spec("a", nodeName="n1", readinessGates=gates), status=status)
    assert (row["IP"], row["Node"], row["Nominated Node"], row["Readiness Gates"]) == ("10.0.0.7", "n1", "n2", "1/3")


@pytest.mark.parametrize(("phase", "reasons"), [("Succeeded", ["Succeeded"]), ("Failed", ["Failed"]), ("Running", [])])
def test_finished_pods_are_marked_completed(resource: Any, build: Any, phase: str, reasons: list[str]) -> None:
    found = conditions_of(resource("pods.v1"), build("pods.v1", status={"phase": phase}))
    assert [(c.type, c.status, c.reason) for c in found] == [("Completed", "True", reason) for reason in reasons]


@pytest.mark.parametrize(
    ("created", "shown"), [(None, "<unknown>"), ("2026-05-10T12:00:01Z", "0s"), ("2026-05-10T12:01:00Z", "<invalid>")]
)
def test_age_may_be_unknown_or_invalid(show: Any, created: str | None, shown: str) -> None:
    assert show("pods.v1", {"creationTimestamp": created})["Age"] == shown


def test_a_pod_template_lists_its_containers_and_labels(show: Any) -> None:
    template = {"metadata": {"labels": {"b": "2", "a": "1"}}, "spec": spec("one", "two")}
    row = show("podtemplates.v1", template=template)
    assert list(row.values()) == ["x", "one,two", "i,i", "a=1,b=2"]
