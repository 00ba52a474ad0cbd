# SPDX-License-Identifier: Apache-2.0
"""Tests of unused legacy tokens: marked first, and deleted a year later."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import ConfigMap, LocalObjectReference, Secret, ServiceAccount
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.app.config import Duration, ManagerConfig
from kubeloop.controllers.legacy_serviceaccount_token_cleaner import (
    INVALID_SINCE,
    LAST_USED,
    TRACKING,
    cleanup_action,
    wire,
)
from kubeloop.testing import Cluster, pod, service_account
from tests.controllers.permissions import start_as

NS = "default"
HOUR = 3600.0
NAME = "kubernetes.io/service-account.name"


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    """Uses have been tracked for long; an account of the old kind lists its token, which is older than it has to be."""
    cluster.client.patch(ConfigMap, TRACKING[0], {"data": {"since": "2020-01-01"}}, TRACKING[1])
    cluster.add(service_account("robot"))
    cluster.client.patch(ServiceAccount, "robot", {"secrets": [{"name": "tok"}]}, NS)
    make(cluster)
    cluster.advance(2 * HOUR)
    return cluster


def make(cluster: Cluster, name: str = "tok", **labels: str) -> None:
    meta = {"name": name, "namespace": NS, "annotations": {NAME: "robot"}, "labels": labels}
    kind = "kubernetes.io/service-account-token"
    cluster.client.create({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": meta})


def start(cluster: Cluster) -> None:
    start_as(cluster, "legacy-service-account-token-cleaner", wire, legacy_service_account_token_clean_up_period=HOUR)


def find(cluster: Cluster, name: str = "tok") -> Any:
    try:
        return cluster.client.get(Secret, name, NS)
    except NotFound:
        return None


def test_unused_token_is_marked_first_and_deleted_later(plane: Cluster) -> None:
    start(plane)
    assert find(plane).metadata.labels == {INVALID_SINCE: plane.clock.now().strftime("%Y-%m-%d")}
    plane.advance(23 * HOUR)
    assert find(plane) is not None
    plane.advance(2 * HOUR)
    assert find(plane) is None


def test_manually_created_token_is_kept(plane: Cluster) -> None:
    plane.client.patch(ServiceAccount, "robot", {"secrets": [{"name": "another"}]}, NS)
    start(plane)
    assert not find(plane).metadata.labels


def test_token_of_a_replaced_account_is_ignored(plane: Cluster) -> None:
    of_another = {"metadata": {"annotations": {"kubernetes.io/service-account.uid": "another"}}}
    plane.client.patch(Secret, "tok", of_another, NS)
    start(plane)
    assert not find(plane).metadata.labels


def test_token_used_by_a_pod_is_kept(plane: Cluster) -> None:
    plane.add(pod("user", image_pull_secrets=(LocalObjectReference(name="tok"),)))
    start(plane)
    assert not find(plane).metadata.labels


def test_token_used_after_marking_is_not_deleted(plane: Cluster) -> None:
    start(plane)
    tomorrow = (plane.clock.now() + timedelta(days=1)).strftime("%Y-%m-%d")
    plane.client.patch(Secret, "tok", {"metadata": {"labels": {LAST_USED: tomorrow}}}, NS)
    plane.advance(25 * HOUR)
    assert find(plane) is not None


@pytest.mark.parametrize("since", [None, "never", "today"])
def test_nothing_is_unused_before_tracking_has_lasted_long_enough(plane: Cluster, since: str | None) -> None:
    told = plane.clock.now().strftime("%Y-%m-%d") if since == "today" else since
    plane.client.patch(ConfigMap, TRACKING[0], {"data": {"since": told}}, TRACKING[1])
    start(plane)
    assert not find(plane).metadata.labels


def test_nothing_is_unused_without_tracking(plane: Cluster) -> None:
    plane.client.delete(ConfigMap, *TRACKING)
    start(plane)
    assert not find(plane).metadata.labels


def test_failed_marking_does_not_block_other_secrets(plane: Cluster) -> None:
    make(plane, "second")
    plane.client.patch(ServiceAccount, "robot", {"secrets": [{"name": "tok"}, {"name": "second"}]}, NS)
    plane.advance(2 * HOUR)
    plane.faults.fail("patch", "secrets", name="second", times=1)
    plane.context = replace(
        plane.context, config=ManagerConfig(legacy_service_account_token_clean_up_period=Duration(HOUR))
    )
    plane.start(wire)
    assert INVALID_SINCE in find(plane).metadata.labels
    plane.advance(10)
    assert INVALID_SINCE in find(plane, "second").metadata.labels


HORIZON = datetime(2024, 6, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("created", "labels", "step"),
    [
        ("2024-06-10T11:59:59Z", {}, "mark"),
        ("2024-06-10T12:00:00Z", {}, None),
        ("2024-01-01T00:00:00Z", {LAST_USED: "2024-06-09"}, "mark"),
        ("2024-01-01T00:00:00Z", {LAST_USED: "2024-06-10"}, None),
        ("2024-01-01T00:00:00Z", {LAST_USED: "yesterday"}, None),
        ("2024-01-01T00:00:00Z", {LAST_USED: "2024-6-1"}, None),
        ("2024-01-01T00:00:00Z", {LAST_USED: ""}, None),
        ("2024-01-01T00:00:00Z", {INVALID_SINCE: "once"}, "mark"),
        ("2024-01-01T00:00:00Z", {INVALID_SINCE: "2024-06-10"}, None),
        ("2024-01-01T00:00:00Z", {INVALID_SINCE: "2024-06-09"}, "delete"),
        ("2024-01-01T00:00:00Z", {INVALID_SINCE: "2024-06-09", LAST_USED: "2024-06-10"}, None),
    ],
)
def test_action_depends_on_days_since_last_use(created: str, labels: dict[str, str], step: str | None) -> None:
    meta = ObjectMeta(name="tok", namespace=NS, labels=labels, creation_timestamp=Time(created))
    assert cleanup_action(Secret(metadata=meta), HORIZON) == step


def test_token_being_deleted_is_ignored() -> None:
    moment = Time("2024-01-01T00:00:00Z")
    meta = ObjectMeta(name="tok", namespace=NS, creation_timestamp=moment, deletion_timestamp=moment)
    assert cleanup_action(Secret(metadata=meta), HORIZON) is None
