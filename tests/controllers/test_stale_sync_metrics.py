# SPDX-License-Identifier: Apache-2.0
"""Syncs that find a cache without the controller's own writes are counted."""

from __future__ import annotations

from kubeloop.controllers.replicaset import wire as wire_replica_sets
from kubeloop.testing import Cluster, daemon_set, replica_set, stateful_set
from tests.controllers import daemon_sets, stateful_sets
from tests.controllers.replicas import NS


def stale_syncs(cluster: Cluster, controller: str) -> dict[str, float]:
    """Return the counted syncs of a controller by the resource of the stale cache."""
    prefix = f"{controller}_controller_stale_sync_skips_total{{"
    lines = cluster.context.telemetry.registry.render().splitlines()
    counts = [one.removeprefix(prefix).split("} ") for one in lines if one.startswith(prefix)]
    return {labels.split('"')[3]: float(count) for labels, count in counts if float(count)}


def hide_changes(cluster: Cluster, resource: str) -> None:
    """Let the caches of a resource lag behind by half a minute."""
    cluster.faults.delay(30, "watch", resource, optional=True)  # if time stands still, the watch is not reopened
    cluster.faults.drop_watches(resource)


def test_replica_sets_with_pods_that_the_cache_does_not_show(cluster: Cluster) -> None:
    cluster.start(wire_replica_sets)
    made = cluster.add(replica_set("a", replicas=1))
    cluster.settle()
    before = stale_syncs(cluster, "replicaset").get("pods", 0)
    hide_changes(cluster, "pods")
    for replicas in (2, 3):
        cluster.client.patch(type(made), "a", {"spec": {"replicas": replicas}}, NS)
        cluster.settle()
    assert stale_syncs(cluster, "replicaset")["pods"] > before
    cluster.advance(60)
    after = stale_syncs(cluster, "replicaset")
    cluster.client.patch(type(made), "a", {"metadata": {"labels": {"x": "y"}}}, NS)
    cluster.settle()
    assert stale_syncs(cluster, "replicaset") == after


def test_stateful_sets_with_pods_that_the_cache_does_not_show(cluster: Cluster) -> None:
    stateful_sets.start(cluster)
    cluster.add(stateful_set(replicas=1))
    cluster.advance(1)
    before = stale_syncs(cluster, "statefulset").get("pods", 0)
    hide_changes(cluster, "pods")
    stateful_sets.change(cluster, replicas=2)
    cluster.settle()
    stateful_sets.change(cluster, replicas=3)
    cluster.settle()
    assert stale_syncs(cluster, "statefulset")["pods"] > before


def test_daemon_sets_with_a_status_that_the_cache_does_not_show(cluster: Cluster) -> None:
    daemon_sets.start(cluster, "n1")
    cluster.add(daemon_set())
    cluster.advance(1)
    before = stale_syncs(cluster, "daemonset").get("daemonsets", 0)
    hide_changes(cluster, "daemonsets")
    for name in ("n2", "n3"):
        daemon_sets.add_node(cluster, name)
        cluster.settle()
    assert stale_syncs(cluster, "daemonset")["daemonsets"] > before
