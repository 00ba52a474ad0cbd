# SPDX-License-Identifier: Apache-2.0
"""A cluster's port, for programs outside of the process."""

from __future__ import annotations

import os
import ssl
import urllib.request

import pytest

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.client import SyncClient
from kubeloop.testing import Cluster, config_map
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.testing.counting_controller import NOTE, counting


def test_live_cluster_is_reachable_by_its_kubeconfig(live_cluster: Cluster) -> None:
    with SyncClient() as outside:
        outside.create(config_map("one"))
    assert live_cluster.client.get(ConfigMap, "one", "default")


def test_controllers_run_while_a_port_is_open(live_cluster: Cluster) -> None:
    live_cluster.start(counting)
    with SyncClient() as outside:
        outside.create(config_map("one", {"a": "1"}, labels={"count": "yes"}))
        live_cluster.eventually(lambda: NOTE in outside.get(ConfigMap, "one", "default").metadata.annotations)


def test_time_cannot_be_advanced_while_a_port_is_open(live_cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match="time is not virtual"):
        live_cluster.advance(hours=1)


def test_cluster_returns_to_virtual_time_when_its_port_is_closed(cluster: Cluster) -> None:
    with cluster.serve() as address:
        assert address.kubeconfig.exists()
        config = str(address.kubeconfig)
        trusting = ssl._create_unverified_context()
        with urllib.request.urlopen(f"{address.url}/readyz", context=trusting, timeout=GIVE_UP_SECONDS) as answer:
            assert answer.read() == b"ok"
    assert not os.path.exists(config)
    before = cluster.clock.now()
    cluster.settle()
    assert cluster.clock.now() == before
    cluster.start(counting)
    cluster.add(config_map("one", {"a": "1"}, labels={"count": "yes"}))
    cluster.advance(days=1)
    assert cluster.client.get(ConfigMap, "one", "default").metadata.annotations[NOTE] == "1"
