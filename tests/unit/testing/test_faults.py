# SPDX-License-Identifier: Apache-2.0
"""Fault switches hit the calls of the code under test, and loops get over them."""

from __future__ import annotations

import pytest

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.client.errors import CallTimeout, ConnectionLost
from kubeloop.testing import Cluster, config_map
from tests.unit.testing.counting_controller import NOTE, counting


def create(cluster: Cluster, name: str) -> None:
    """Call like the code under test."""
    cluster.run(cluster.async_client.create(config_map(name)))


def exists(cluster: Cluster, name: str) -> bool:
    return name in {one.metadata.name for one in cluster.client.list(ConfigMap, "default").items}


def test_a_failing_call_never_reaches_the_server(cluster: Cluster) -> None:
    fault = cluster.faults.fail("create", "configmaps", errors.internal_error("no"), times=1)
    with pytest.raises(errors.InternalError):
        create(cluster, "one")
    assert not exists(cluster, "one")
    assert fault.hits == 1
    create(cluster, "one")
    assert exists(cluster, "one")


def test_tests_own_client_has_no_faults(cluster: Cluster) -> None:
    cluster.faults.fail(times=None, optional=True)
    assert cluster.client.create(config_map("one"))
    cluster.faults.clear()
    create(cluster, "two")


def test_lost_response_hides_an_executed_write(cluster: Cluster) -> None:
    cluster.faults.lose_answers("create")
    with pytest.raises(ConnectionLost):
        create(cluster, "one")
    assert exists(cluster, "one")


def test_fault_matches_its_verb_resource_and_name_only(cluster: Cluster) -> None:
    cluster.faults.fail("delete", times=None, optional=True)
    cluster.faults.fail("create", "secrets", times=None, optional=True)
    cluster.faults.fail("read", "configmaps", errors.internal_error("no"), name="one", times=None)
    create(cluster, "one")
    with pytest.raises(errors.InternalError):
        cluster.run(cluster.async_client.get(ConfigMap, "one", "default"))


def test_slow_call_times_out(cluster: Cluster) -> None:
    cluster.faults.delay(60.0, "create")
    with pytest.raises(CallTimeout):
        create(cluster, "one")


def test_randomness_is_seeded(cluster: Cluster) -> None:
    fault = cluster.faults.fail("create", error=errors.internal_error("no"), times=None, chance=0.5)
    for number in range(40):
        try:
            create(cluster, f"c{number}")
        except errors.InternalError:
            continue
    assert 10 < fault.hits < 30


def test_controller_recovers_from_conflicts(cluster: Cluster) -> None:
    fault = cluster.faults.conflict("patch", "configmaps", times=3)
    cluster.add(config_map("one", {"a": "1"}, labels={"count": "yes"}))
    cluster.start(counting)
    cluster.advance(seconds=1)
    assert fault.hits == 3
    assert cluster.client.get(ConfigMap, "one", "default").metadata.annotations[NOTE] == "1"


@pytest.mark.parametrize("break_watches", ["drop_watches", "expire_watches"])
def test_controller_misses_nothing_when_its_watch_breaks(cluster: Cluster, break_watches: str) -> None:
    cluster.start(counting)
    assert getattr(cluster.faults, break_watches)("configmaps") == 1
    cluster.add(config_map("one", {"a": "1"}, labels={"count": "yes"}))
    cluster.advance(minutes=1)
    assert cluster.client.get(ConfigMap, "one", "default").metadata.annotations[NOTE] == "1"
