# SPDX-License-Identifier: Apache-2.0
"""Tests of gangs one of whose pods is rejected after the group's cycle: the others wait for it, for a limited time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.scheduler.config.configuration import ProfileConfig, SchedulerConfig, default_profile
from kubeloop.scheduler.framework import Plugin, Status, unschedulable_status
from kubeloop.scheduler.framework.registry import PluginRegistry
from kubeloop.scheduler.scheduler import Scheduler
from kubeloop.testing import Cluster
from tests.scheduler.cluster_objects import unschedulable_message
from tests.scheduler.gangs import GATES, add_nodes, bound, gang, gated, member


class Stubborn(Plugin):
    """Rejects pod b once its group has been scheduled in memory."""

    name = "Stubborn"
    rejects = True

    def reserve(self, cycle: Any, node: str) -> Status | None:
        if cycle.pod.key.name == "b" and not cycle.is_tentative and type(self).rejects:
            return unschedulable_status(self.name, "not b")
        return None


def start(cluster: Cluster, plugin: type[Plugin]) -> None:
    features = parse_feature_gates([GATES])
    usual = default_profile(features=features)
    names = (*usual.plugin_names, plugin.name)
    config = SchedulerConfig((ProfileConfig(plugin_names=names, weights=usual.weights),), features=features)
    cluster.start(lambda context: Scheduler(context, config, PluginRegistry({plugin.name: plugin})))


def test_pod_waits_for_the_others_until_the_permit_times_out(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(**gated())
    start(cluster, type("Stubborn", (Stubborn,), {}))
    add_nodes(cluster, "one", cpu="4")
    cluster.add(gang(least=2), member("a"), member("b"))
    cluster.advance(minutes=4)
    assert bound(cluster) == {}
    assert cluster.client.get("pods", "a", "default").status.nominated_node_name == "one"
    assert unschedulable_message(cluster, "b") == "0/1 nodes are available: 1 not b."
    cluster.advance(minutes=1, seconds=1)
    assert bound(cluster) == {}
    told = [one.message for one in cluster.events(reason="FailedScheduling") if one.involved_object.name == "a"]
    assert any("rejected due to timeout after waiting 5m0s at plugin GangScheduling" in one for one in told)


def test_pod_that_waits_is_bound_with_the_last_one(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(**gated())
    kind = type("Stubborn", (Stubborn,), {})
    start(cluster, kind)
    add_nodes(cluster, "one", cpu="4")
    cluster.add(gang(least=2), member("a"), member("b"))
    cluster.advance(minutes=1)
    assert bound(cluster) == {}
    kind.rejects = False  # type: ignore[attr-defined]  # of the class made above
    cluster.advance(minutes=1)
    assert bound(cluster) == {"a": "one", "b": "one"}
