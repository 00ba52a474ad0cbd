# SPDX-License-Identifier: Apache-2.0
"""Requests about pools of devices are answered once, as things then are, and go when their time is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import Invalid, NotFound
from kubeloop.api.generated.resource_v1alpha3 import ResourcePoolStatusRequest, ResourcePoolStatusRequestStatus
from kubeloop.api.scalars.times import parse_time
from kubeloop.controllers import resourcepoolstatusrequest
from kubeloop.testing import Cluster
from tests.controllers.devices import DRIVER, allocate, claim
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step, steps
from tests.controllers.permissions import start_as

SERVED: Any = {"runtime_config": "resource.k8s.io/v1alpha3=true", "feature_gates": "DRAResourcePoolStatus=true"}
TROUBLE = tuple(one for one in (*NETWORK, *LOSSES) if not one.endswith("create"))


def ask(cluster: Cluster, name: str = "r", driver: str = DRIVER, **spec: Any) -> None:
    meta, asked = {"name": name}, {"driver": driver, **spec}
    kind = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest"}
    cluster.client.create({**kind, "metadata": meta, "spec": asked})
    cluster.settle()


def publish(cluster: Cluster, name: str, *devices: str, of: int = 1, generation: int = 1) -> None:
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": of}
    spec = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": [{"name": one} for one in devices]}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    cluster.client.create({**kind, "metadata": {"name": name}, "spec": spec})
    cluster.settle()


def request(cluster: Cluster, name: str = "r") -> ResourcePoolStatusRequest | None:
    try:
        found: ResourcePoolStatusRequest = cluster.client.get(ResourcePoolStatusRequest, name)
    except NotFound:
        return None
    return found


def answer(cluster: Cluster, name: str = "r") -> ResourcePoolStatusRequestStatus | None:
    found = request(cluster, name)
    return None if found is None else found.status


@pytest.fixture
def env(make_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = make_cluster(**SERVED)
    cluster.start(resourcepoolstatusrequest.wire)
    return cluster


def test_request_gets_pool_summaries_in_its_status(env: Cluster) -> None:
    publish(env, "s", "g0", "g1", "g2")
    claim(env, "c")
    allocate(env, "c", device="g1")
    taint = {"key": "k", "effect": "NoSchedule"}
    spec = {"deviceSelector": {"device": "g2"}, "taint": taint}
    env.client.create(
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "t"}, "spec": spec}
    )
    env.settle()
    ask(env)
    found = answer(env)
    assert found is not None
    assert found.pool_count == 1
    (pool,) = found.pools
    counts = (pool.total_devices, pool.allocated_devices, pool.available_devices, pool.unavailable_devices)
    assert (pool.pool_name, pool.node_name, counts) == ("pool", "n", (3, 1, 1, 1))
    (condition,) = found.conditions
    assert (condition.type, condition.status, condition.reason) == ("Complete", "True", "CalculationComplete")


def test_completed_status_is_not_updated(env: Cluster) -> None:
    publish(env, "s", "g0")
    ask(env)
    before = request(env)
    env.client.delete("resourceslices", "s")
    publish(env, "t", "g0", "g1")
    assert request(env) == before
    patch = {"status": {"poolCount": 7}}
    with pytest.raises(Invalid, match="field is immutable"):
        env.client.patch(ResourcePoolStatusRequest, "r", patch, subresource="status")


def test_request_waits_for_a_complete_pool(env: Cluster) -> None:
    publish(env, "s", "g0", of=2)
    ask(env)
    env.advance(hours=3)
    assert answer(env) is None
    publish(env, "t", "g1", of=2)
    found = answer(env)
    assert found is not None
    assert found.pools[0].total_devices == 2


def test_driver_without_pools_is_reported_immediately(env: Cluster) -> None:
    ask(env, driver="nobody.example.com")
    found = answer(env)
    assert found is not None
    assert (found.pool_count, found.pools) == (0, ())
    assert found.conditions[0].message == "Calculated status for 0 pools"


def test_completed_request_expires_after_an_hour_and_pending_one_after_a_day(env: Cluster) -> None:
    ask(env, driver="nobody.example.com")
    publish(env, "s", of=2)
    ask(env, "waiting")
    env.advance(minutes=60)
    assert request(env) is not None
    env.advance(seconds=2)
    assert request(env) is None
    env.advance(hours=22)
    assert request(env, "waiting") is not None
    env.advance(hours=1, seconds=2)
    assert request(env, "waiting") is None


def test_request_from_before_the_start_is_processed(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(**SERVED)
    publish(cluster, "s", "g0")
    ask(cluster)
    assert answer(cluster) is None
    cluster.start(resourcepoolstatusrequest.wire)
    assert answer(cluster) is not None


def test_rejected_status_is_not_retried(env: Cluster) -> None:
    publish(env, "s", "g0", generation=0)
    ask(env)
    before = env.server.registry.store.revision
    env.advance(hours=1)
    assert answer(env) is None
    assert env.server.registry.store.revision - before < 20
    env.client.delete("resourceslices", "s")
    publish(env, "t", "g0", generation=1)
    assert answer(env) is not None


def test_taint_rules_are_ignored_without_the_feature_gate(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(**{**SERVED, "feature_gates": "DRAResourcePoolStatus=true,DRADeviceTaintRules=false"})
    cluster.start(resourcepoolstatusrequest.wire)
    publish(cluster, "s", "g0")
    spec = {"deviceSelector": {}, "taint": {"key": "k", "effect": "NoSchedule"}}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule"}
    cluster.client.create({**kind, "metadata": {"name": "t"}, "spec": spec})
    cluster.settle()
    ask(cluster)
    found = answer(cluster)
    assert found is not None
    assert found.pools[0].unavailable_devices == 0


def test_controllers_role_is_sufficient(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(**SERVED)
    start_as(cluster, "resourcepoolstatusrequest-controller", resourcepoolstatusrequest.wire)
    publish(cluster, "s", "g0")
    ask(cluster)
    assert answer(cluster) is not None
    cluster.advance(hours=1, seconds=2)
    assert request(cluster) is None


class RequestModel:
    """Requests, and slices of a pool that is whole at some times and at others isn't."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._process = ControllerProcess(cluster, resourcepoolstatusrequest.wire)
        self._made = 0
        self._answers: dict[str, ResourcePoolStatusRequestStatus] = {}

    def take(self, step: Step) -> None:
        name, number = step
        self._made += 1
        happenings: dict[str, Callable[[], Any]] = {
            "ask": lambda: ask(self.cluster, f"r{self._made}"),
            "publish": lambda: publish(self.cluster, f"s{self._made}", "g0", of=1 + number % 3),
            "withdraw": lambda: self.cluster.client.delete_collection("resourceslices"),
            "wait": lambda: self.cluster.advance(minutes=number * 10),
        }
        happenings.get(name, lambda: self._process.disturb(name, number))()
        self._check()

    def _all(self) -> list[ResourcePoolStatusRequest]:
        return list(self.cluster.client.list(ResourcePoolStatusRequest).items)

    def _check(self) -> None:
        """An answer never changes, and no request goes before its time."""
        found = {one.metadata.name: one for one in self._all()}
        now = self.cluster.clock.now()
        for name, told in self._answers.items():
            assert name not in found or found[name].status == told
            moment = told.conditions[0].last_transition_time
            assert name in found or (moment and (now - parse_time(moment)).total_seconds() >= 3600)
        self._answers |= {name: one.status for name, one in found.items() if one.status is not None}

    def check_end(self) -> None:
        self.cluster.faults.clear()
        self.cluster.client.delete_collection("resourceslices")
        self.cluster.advance(minutes=10)
        assert all(one.status is not None for one in self._all())
        self.cluster.advance(hours=2)
        assert self._all() == []


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(steps("ask", "ask", "publish", "publish", "withdraw", "wait", *TROUBLE), st.integers(0, 2**16))
def test_each_request_is_processed_once_and_deleted(taken: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True, **SERVED) as cluster:
        questions = RequestModel(cluster)
        for step in taken:
            questions.take(step)
        questions.check_end()
