# SPDX-License-Identifier: Apache-2.0
"""Tests of forks of a test cluster: equal history, independent futures."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.testing import Cluster, config_map
from tests.unit.testing.counting_controller import NOTE, counting


def test_fork_has_all_state_and_is_independent(cluster: Cluster) -> None:
    made = cluster.add(config_map("before"))
    cluster.advance(hours=1)
    with cluster.fork() as fork:
        assert fork.clock.now() == cluster.clock.now()
        found = fork.client.get(ConfigMap, "before", "default")
        assert found == made
        fork.add(config_map("there"))
        cluster.add(config_map("here"))
        fork.client.delete(ConfigMap, "before", "default")
        assert names(cluster) == {"before", "here"}
        assert names(fork) == {"there"}


def test_forks_generate_distinct_identities(cluster: Cluster) -> None:
    with cluster.fork() as one, cluster.fork() as other:
        made = [somewhere.add(config_map("new")) for somewhere in (cluster, one, other)]
        assert len({object_.metadata.uid for object_ in made}) == 3


def test_watch_can_continue_in_the_fork(cluster: Cluster) -> None:
    first = cluster.add(config_map("first"))
    cluster.add(config_map("second"))
    with cluster.fork() as fork:
        listed = fork.client.list(ConfigMap, "default", resource_version=first.metadata.resource_version)
        assert {one.metadata.name for one in listed.items} >= {"first", "second"}


def test_controllers_are_restarted(cluster: Cluster) -> None:
    cluster.start(counting)
    cluster.add(config_map("a", labels={"count": ""}))
    cluster.settle()
    with cluster.fork() as fork:
        fork.start(counting)
        fork.add(config_map("b", labels={"count": ""}))
        fork.settle()
        assert fork.client.get(ConfigMap, "b", "default").metadata.annotations[NOTE] == "0"


def names(cluster: Cluster) -> set[str]:
    found = cluster.client.list(ConfigMap, "default").items
    return {one.metadata.name for one in found} - {"kube-root-ca.crt"}
