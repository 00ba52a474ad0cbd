# SPDX-License-Identifier: Apache-2.0
"""Tests of storage migration: objects are rewritten, and unused stored versions are removed."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import InternalError, Invalid
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import Condition, GroupResource, ObjectMeta
from kubeloop.api.generated.storagemigration_v1 import (
    StorageVersionMigration,
    StorageVersionMigrationSpec,
    StorageVersionMigrationStatus,
)
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.storage_version_migrator import wire
from kubeloop.controllers.storage_version_migrator.migration_order import progress_message, sort_migrations
from kubeloop.testing import Cluster, config_map
from tests.controllers.permissions import start_as

ACCOUNT = "storage-version-migrator-controller"
WIDGETS = "widgets.example.com"


def migration(name: str = "m", resource: str = "widgets", group: str = "example.com") -> dict[str, Any]:
    return {
        "apiVersion": "storagemigration.k8s.io/v1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": name},
        "spec": {"resource": {"group": group, "resource": resource}},
    }


def versions(stored: str) -> list[dict[str, Any]]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return [{"name": one, "served": True, "storage": one == stored, "schema": schema} for one in ("v1", "v2")]


@pytest.fixture
def env(cluster: Cluster) -> Cluster:
    """Widgets were stored as v1, and are stored as v2 from now on."""
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions("v1")}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    cluster.client.create({**kind, "metadata": {"name": WIDGETS}, "spec": spec})
    cluster.settle()
    for name in ("a", "b", "c"):
        meta = {"name": name, "namespace": "default"}
        cluster.client.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta})
    cluster.client.patch(CustomResourceDefinition, WIDGETS, {"spec": {"versions": versions("v2")}})
    cluster.settle()
    return cluster


def definition(cluster: Cluster) -> tuple[list[str], tuple[str, str, str]]:
    status = cluster.client.get(CustomResourceDefinition, WIDGETS).status
    told = [one for one in status.conditions or () if one.type == "StorageMigrating"]
    condition = (told[0].status, told[0].reason, told[0].message) if told else ("", "", "")
    return list(status.stored_versions or ()), condition


def conditions(cluster: Cluster, name: str = "m") -> dict[str, tuple[str, str, str]]:
    found = cluster.client.get(StorageVersionMigration, name)
    return {one.type: (one.status, one.reason, one.message) for one in found.status.conditions}


DONE = {
    "Running": ("False", "MigrationCompleted", "Migration completed"),
    "Succeeded": ("True", "StorageVersionMigrationSucceeded", "Migration completed"),
}


def test_objects_are_rewritten_and_the_old_stored_version_is_removed(env: Cluster) -> None:
    assert definition(env)[0] == ["v1", "v2"]
    before = {one.metadata.name: one.metadata.resource_version for one in env.client.list(WIDGETS).items}
    start_as(env, ACCOUNT, wire)
    env.client.create(migration())
    env.settle()
    assert conditions(env) == DONE
    after = {one.metadata.name: one.metadata.resource_version for one in env.client.list(WIDGETS).items}
    assert all(int(after[name]) > int(before[name]) for name in before)
    stored, told = definition(env)
    assert stored == ["v2"]
    assert told == (
        "False",
        "MigrationSucceeded",
        "The migration has succeeded and the stored versions have been updated",
    )
    assert env.client.get(StorageVersionMigration, "m").status.resource_version


def test_builtin_resources_are_rewritten(cluster: Cluster) -> None:
    cluster.add(config_map("a"))
    start_as(cluster, ACCOUNT, wire)
    cluster.client.create(migration(resource="configmaps", group=""))
    cluster.settle()
    assert conditions(cluster) == DONE
    assert cluster.client.get(ConfigMap, "a", "default").data == {}


def test_concurrently_changed_definition_keeps_its_stored_versions(env: Cluster) -> None:
    env.faults.fail("patch", "widgets", times=None)
    loop = env.start(wire)
    env.client.create(migration())
    env.settle()
    assert definition(env)[1] == ("True", "MigrationRunning", "Migration m is running")
    changed = versions("v2")
    changed[0]["served"] = False
    env.client.patch(CustomResourceDefinition, WIDGETS, {"spec": {"versions": changed}})
    env.faults.clear()
    env.advance(60)
    assert conditions(env) == DONE
    stored, told = definition(env)
    assert stored == ["v1", "v2"]
    assert told[2] == (
        "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
    )
    env.stop(loop)


def test_transient_errors_are_reported_and_retried(env: Cluster) -> None:
    env.faults.fail("patch", "widgets", times=None, error=lambda _: InternalError("the store is away"))
    env.start(wire)
    env.client.create(migration())
    env.settle()
    assert conditions(env)["Running"] == (
        "True",
        "MigrationRunning",
        "The migration is running, 3/3 objects not yet migrated; transient error: the store is away",
    )
    env.faults.clear()
    env.advance(60)
    assert conditions(env) == DONE


def test_permanent_errors_fail_the_migration(env: Cluster) -> None:
    env.faults.fail("patch", "widgets", times=None, error=lambda _: Invalid("it is wrong"))
    env.start(wire)
    env.client.create(migration())
    env.settle()
    told = conditions(env)
    assert told["Running"][0] == "False"
    assert told["Failed"] == (
        "True",
        "StorageVersionMigrationFailed",
        "3/3 not yet migrated. migration encountered unhandled error: it is wrong",
    )
    stored, condition = definition(env)
    assert stored == ["v1", "v2"]
    assert condition == ("False", "MigrationFailed", "The migration has failed")


def test_unserved_resource_is_retried_for_a_minute(cluster: Cluster) -> None:
    start_as(cluster, ACCOUNT, wire)
    cluster.client.create(migration(resource="things"))
    cluster.advance(50)
    assert conditions(cluster) == {"Running": ("True", "MigrationRunning", "The migration is running")}
    cluster.advance(20)
    assert conditions(cluster)["Failed"] == (
        "True",
        "StorageVersionMigrationFailed",
        "resource does not exist in discovery",
    )


def test_resource_without_update_verb_fails_immediately(cluster: Cluster) -> None:
    start_as(cluster, ACCOUNT, wire)
    cluster.client.create(migration(resource="componentstatuses", group=""))
    cluster.settle()
    assert conditions(cluster)["Failed"][2] == (
        'resource "/v1, Resource=componentstatuses" does not support discovery operations: [update patch list]'
    )


def test_migrations_of_a_resource_run_one_at_a_time(env: Cluster) -> None:
    env.faults.fail("patch", "widgets", times=None)
    env.start(wire)
    env.client.create(migration("first"))
    env.advance(2)
    env.client.create(migration("second"))
    env.advance(2)
    assert "Running" in conditions(env, "first")
    assert conditions(env, "second") == {}
    env.faults.clear()
    env.advance(60)
    assert conditions(env, "first") == conditions(env, "second") == DONE


def test_running_migration_precedes_an_older_one() -> None:
    def made(name: str, moment: str, *types: str) -> StorageVersionMigration:
        told = tuple(Condition(type=one, status="True", reason="x") for one in types)
        return StorageVersionMigration(
            metadata=ObjectMeta(name=name, creation_timestamp=Time(moment)),
            spec=StorageVersionMigrationSpec(resource=GroupResource(resource="pods")),
            status=StorageVersionMigrationStatus(conditions=told),
        )

    old, young = made("old", "2024-01-01T00:00:00Z"), made("young", "2024-01-02T00:00:00Z")
    assert sort_migrations([young, old]) == ([], None, old)
    running = made("running", "2024-01-03T00:00:00Z", "Running")
    assert sort_migrations([young, old, running]) == ([], running, None)
    ended = made("ended", "2024-01-03T00:00:00Z", "Running", "Failed")
    assert sort_migrations([young, ended]) == ([ended], None, young)
    assert sort_migrations([made("done", "2024-01-03T00:00:00Z", "Succeeded")]) == ([], None, None)


def test_progress_metrics_are_reported() -> None:
    assert progress_message() == progress_message(0, 0) == "The migration is running"
    assert progress_message(2, 5) == "The migration is running, 2/5 objects not yet migrated"
    assert progress_message(0, 5) == "The migration is running, 5 objects verified migrated"
