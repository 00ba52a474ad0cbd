# SPDX-License-Identifier: Apache-2.0
"""Pods that wait are tried again when room becomes free, however it does; also by a scheduler that has just started."""

from __future__ import annotations

from typing import Any

from kubeloop.scheduler.framework.plugin import PermitWait, Plugin
from kubeloop.scheduler.scheduler import wire
from kubeloop.testing import Cluster, node, pod
from tests.scheduler.cluster_objects import asking, join, node_of
from tests.scheduler.test_custom_plugins import with_plugins
from tests.scheduler.test_preemption import end, make_classes, of


class RejectFirst(Plugin):
    """Never lets the pod named first be bound."""

    name = "RejectFirst"

    def events_to_register(self) -> tuple[()]:
        return ()

    def permit(self, cycle: Any, node: str) -> PermitWait | None:
        return PermitWait(600.0) if cycle.pod.key.name == "first" else None


def test_pod_deleted_before_binding_releases_its_resources(cluster: Cluster) -> None:
    cluster.start(with_plugins(RejectFirst))
    join(cluster, node("one", cpu="2"))
    cluster.add(pod("first", **asking("2")))
    cluster.settle()
    cluster.add(pod("second", **asking("2")))
    cluster.settle()
    assert node_of(cluster, "second") == ""
    end(cluster, "first")
    cluster.settle()
    assert node_of(cluster, "second") == "one"


def making_room(cluster: Cluster) -> None:
    """A pod waits for room on a node until a victim has ended."""
    make_classes(cluster)
    join(cluster, node("one", cpu="2"))
    spec = {**of("low"), "termination_grace_period_seconds": 30}
    cluster.add(pod("victim", node="one", phase="Running", **spec))
    cluster.add(pod("important", **of("high")))
    cluster.settle()


def nomination(cluster: Cluster, name: str) -> str:
    return str(cluster.client.get("pods", name, "default").status.nominated_node_name)


def test_pod_whose_nomination_is_removed_is_retried(cluster: Cluster) -> None:
    cluster.start(wire)
    making_room(cluster)
    change = {"status": {"nominatedNodeName": None}}
    cluster.client.patch("pods", "important", change, "default", subresource="status")
    cluster.advance(seconds=2)
    assert nomination(cluster, "important") == "one"


def test_nominated_node_is_honored_after_a_restart(cluster: Cluster) -> None:
    loop = cluster.start(wire)
    making_room(cluster)
    cluster.stop(loop)
    cluster.add(pod("small", **of("low", "1")))
    end(cluster, "victim")
    cluster.start(wire)
    assert (node_of(cluster, "important"), node_of(cluster, "small")) == ("one", "")


def test_higher_priority_pod_clears_the_nomination_of_another(cluster: Cluster) -> None:
    cluster.start(wire)
    make_classes(cluster)
    join(cluster, node("one", cpu="2"))
    spec = {**of("low"), "termination_grace_period_seconds": 30}
    cluster.add(pod("victim", node="one", phase="Running", **spec))
    cluster.add(pod("middling", **of("middle")))
    cluster.settle()
    assert nomination(cluster, "middling") == "one"
    cluster.add(pod("important", **of("high")))
    cluster.settle()
    assert (nomination(cluster, "important"), nomination(cluster, "middling")) == ("one", "")
    end(cluster, "victim")
    cluster.advance(seconds=2)
    assert (node_of(cluster, "important"), node_of(cluster, "middling")) == ("one", "")
