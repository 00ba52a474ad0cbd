# SPDX-License-Identifier: Apache-2.0
"""Rows of namespaces, nodes, configuration, quotas, and the small kinds."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("conditions", "unschedulable", "shown"),
    [
        ([], False, "Unknown"),
        ([{"type": "Ready", "status": "True"}], False, "Ready"),
        ([{"type": "Ready", "status": "Unknown"}], False, "NotReady"),
        ([{"type": "Ready", "status": "True"}], True, "Ready,SchedulingDisabled"),
        ([{"type": "DiskPressure", "status": "True"}], True, "Unknown,SchedulingDisabled"),
    ],
)
def test_node_status_is_its_readiness(show: Any, conditions: Any, unschedulable: bool, shown: str) -> None:
    row = show("nodes.v1", spec={"unschedulable": unschedulable}, status={"conditions": conditions})
    assert row["Status"] == shown


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ({}, "<none>"),
        ({"node-role.kubernetes.io/": ""}, "<none>"),
        ({"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": ""}, "control-plane,worker"),
        ({"kubernetes.io/role": "edge", "node-role.kubernetes.io/a": "x"}, "a,edge"),
        ({"kubernetes.io/role": ""}, "<none>"),
    ],
)
def test_node_roles_come_from_labels(show: Any, labels: Any, shown: str) -> None:
    assert show("nodes.v1", {"labels": labels})["Roles"] == shown


def test_wide_node_output_has_system_info(show: Any) -> None:
    info = {
        "kubeletVersion": "v1.37.0",
        "osImage": "Debian",
        "kernelVersion": "6.12",
        "architecture": "arm64",
        "containerRuntimeVersion": "containerd://2",
    }
    addresses = [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"}]
    row = show("nodes.v1", status={"nodeInfo": info, "addresses": addresses})
    assert list(row.values())[4:] == ["v1.37.0", "10.0.0.1", "<none>", "Debian", "6.12 (arm64)", "containerd://2"]


def test_unregistered_node_has_unknown_values(show: Any) -> None:
    row = show("nodes.v1")
    assert list(row.values())[4:] == ["", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]


@pytest.mark.parametrize(
    ("kind", "fields", "shown"),
    [
        ("namespaces.v1", {"status": {"phase": "Terminating"}}, ["x", "Terminating", "5m"]),
        ("configmaps.v1", {"data": {"a": "1"}, "binaryData": {"b": "AA==", "c": ""}}, ["x", 3, "5m"]),
        ("secrets.v1", {"type": "Opaque", "data": {"a": "AA=="}}, ["x", "Opaque", 1, "5m"]),
        ("serviceaccounts.v1", {}, ["x", "5m"]),
        ("leases.coordination.k8s.io/v1", {"spec": {"holderIdentity": "me"}}, ["x", "me", "5m"]),
        ("leases.coordination.k8s.io/v1", {}, ["x", "", "5m"]),
        (
            "priorityclasses.scheduling.k8s.io/v1",
            {"value": -3, "globalDefault": True, "preemptionPolicy": "Never"},
            ["x", -3, True, "5m", "Never"],
        ),
        ("runtimeclasses.node.k8s.io/v1", {"handler": "runc"}, ["x", "runc", "5m"]),
        ("limitranges.v1", {}, ["x", "2026-05-10T11:55:00Z"]),
        ("deviceclasses.resource.k8s.io/v1", {}, ["x", "5m"]),
        ("resourceclaimtemplates.resource.k8s.io/v1", {}, ["x", "5m"]),
    ],
)
def test_small_kinds_show_their_columns(show: Any, kind: str, fields: Any, shown: list[Any]) -> None:
    assert list(show(kind, **fields).values()) == shown


def test_quota_separates_limits_from_requests(show: Any) -> None:
    hard = {"requests.cpu": "2", "limits.cpu": "4", "pods": "10", "limits.memory": "1Gi"}
    row = show("resourcequotas.v1", status={"hard": hard, "used": {"pods": "3", "limits.cpu": "500m"}})
    assert row["Request"] == "pods: 3/10, requests.cpu: 0/2"
    assert row["Limit"] == "limits.cpu: 500m/4, limits.memory: 0/1Gi"


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        ([], ["x", "Unknown", "", ""]),
        ([{"type": "Healthy", "status": "True", "message": "ok"}], ["x", "Healthy", "ok", ""]),
        ([{"type": "Healthy", "status": "False", "error": "no answer"}], ["x", "Unhealthy", "", "no answer"]),
    ],
)
def test_a_component_is_healthy_unhealthy_or_unknown(show: Any, conditions: Any, shown: list[str]) -> None:
    assert list(show("componentstatuses.v1", conditions=conditions).values()) == shown


EVENT = {
    "type": "Warning",
    "reason": "Failed",
    "message": " it broke\n",
    "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
    "source": {"component": "kubelet", "host": "n1"},
    "firstTimestamp": "2026-05-10T11:00:00Z",
    "lastTimestamp": "2026-05-10T11:50:00Z",
    "count": 4,
}


def test_event_shows_time_reason_and_count(show: Any) -> None:
    row = show("events.v1", **EVENT)
    expected = ["10m", "Warning", "Failed", "pod/p", "spec.containers{c}", "kubelet, n1", "it broke", "60m", 4, "x"]
    assert list(row.values()) == expected


def test_both_event_versions_show_the_same(show: Any) -> None:
    renamed = {
        "message": "note",
        "involvedObject": "regarding",
        "source": "deprecatedSource",
        "firstTimestamp": "deprecatedFirstTimestamp",
        "lastTimestamp": "deprecatedLastTimestamp",
        "count": "deprecatedCount",
    }
    fields = {renamed.get(key, key): value for key, value in EVENT.items()}
    assert show("events.events.k8s.io/v1", **fields) == show("events.v1", **EVENT)


def test_a_single_event_happened_once_at_its_time(show: Any) -> None:
    row = show(
        "events.v1", eventTime="2026-05-10T11:58:30.000000Z", reportingComponent="c", involvedObject={"kind": "Node"}
    )
    assert (row["Last Seen"], row["First Seen"], row["Count"]) == ("90s", "90s", 1)
    assert (row["Object"], row["Source"]) == ("node", "c")


def test_a_series_of_events_shows_its_last_and_its_count(show: Any) -> None:
    series = {"count": 9, "lastObservedTime": "2026-05-10T11:59:30.000000Z"}
    row = show("events.v1", eventTime="2026-05-10T11:00:00.000000Z", series=series)
    assert (row["Last Seen"], row["First Seen"], row["Count"]) == ("30s", "60m", 9)


def test_event_without_a_time_has_an_unknown_age(show: Any) -> None:
    assert show("events.v1")["Last Seen"] == "<unknown>"
