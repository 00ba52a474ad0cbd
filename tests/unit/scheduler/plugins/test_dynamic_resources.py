# SPDX-License-Identifier: Apache-2.0
"""Tests of the DynamicResources filter and its timeout."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.clock import SystemClock
from kubeloop.scheduler.framework.status import Code
from kubeloop.scheduler.plugins.dynamic_resources import DynamicResources
from tests.unit.scheduler.dra.device_claims import DRIVER, claim_of, device_class, exactly, slice_of
from tests.unit.scheduler.random_clusters import RandomCluster


class FastClock(SystemClock):
    """Clock that advances three seconds on each read."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 3
        return self.seconds


def pod_with(*claims: str) -> Pod:
    listed = [{"name": name, "resourceClaimName": name} for name in claims]
    spec = {"containers": [{"name": "app"}], "resourceClaims": listed}
    return from_plain({"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": spec}, Pod)


def environment_of(*objects: Any) -> RandomCluster:
    env = RandomCluster()
    for name in ("n1", "n2"):
        env.add_node(from_plain({"metadata": {"name": name}, "status": {"allocatable": {"pods": "9"}}}, Node))
    env.add(device_class(), *objects)
    return env


MANY = slice_of([{"name": f"d{number}"} for number in range(6)])


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, "node n1: timed out trying to allocate devices"),  # after ten seconds
        ({"filterTimeout": "1m"}, ""),
        ({"filterTimeout": "0s"}, ""),
    ],
)
def test_filter_timeout_is_enforced(args: dict[str, str], told: str) -> None:
    env = environment_of(MANY, claim_of(exactly(count=6)))
    env.around.clock = FastClock()
    plugin, pod = env.plugin(DynamicResources, args), pod_with("c")
    state = plugin.pre_filter(env.info(pod), env.cluster)
    answers = plugin.filter(state, env.cluster, env.cluster.rows_in_use())
    refusals = [plugin.filter_status(state, int(one)) if one else None for one in answers]
    if told:
        assert [(one.code, one.message) for one in refusals if one] == [(Code.ERROR, told)] * 2
    else:
        assert [one.message if one else "" for one in refusals] == ["", "cannot allocate all claims"]


def holding(name: str, **allocation: Any) -> ResourceClaim:
    claim = {"metadata": {"name": name, "namespace": "default", "uid": name}, "status": {"allocation": allocation}}
    return from_plain(claim, ResourceClaim)


def conditioned(age: str, *conditions: str) -> ResourceClaim:
    """A claim with a device that has to be attached, since some year."""
    result = {
        "request": "r", "driver": DRIVER, "pool": "p", "device": "d0",
        "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"],
    }  # fmt: skip
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": f"{age}-01-01T00:00:00Z"}
    said = [{"type": one, "status": "True"} for one in conditions]
    devices = [{"driver": DRIVER, "pool": "p", "device": "d0", "conditions": said}]
    status = {"allocation": allocation, "devices": devices}
    return from_plain({"metadata": {"name": "c", "namespace": "default", "uid": "c"}, "status": status}, ResourceClaim)


NOT_HERE = ("resourceclaim not available on the node",)


@pytest.mark.parametrize(
    ("claim", "reasons"),
    [
        (conditioned("2020", "attached"), ()),
        (conditioned("2020"), NOT_HERE),  # too late
        (conditioned("2999"), ()),
        (conditioned("2999", "broken"), NOT_HERE),
        (conditioned("2999", "attached", "broken"), NOT_HERE),
        (holding("c", devices={"results": []}), ()),
    ],
)
def test_devices_with_failed_binding_conditions_are_excluded(claim: ResourceClaim, reasons: tuple[str, ...]) -> None:
    env = environment_of(claim)
    found = env.refusals(env.plugin(DynamicResources), pod_with("c"))
    assert found == ({"n1": reasons, "n2": reasons} if reasons else {})


def test_all_claims_of_a_pod_need_devices_on_one_node() -> None:
    env = environment_of(MANY, claim_of(exactly(count=4), name="a"), claim_of(exactly(count=3), name="b"))
    plugin = env.plugin(DynamicResources)
    assert env.refusals(plugin, pod_with("a")) == {"n2": ("cannot allocate all claims",)}
    assert set(env.refusals(plugin, pod_with("a", "b"))) == {"n1", "n2"}


def test_profiles_share_pending_allocations() -> None:
    env = environment_of(MANY, claim_of(exactly(count=4), name="a"), claim_of(exactly(count=4), name="b"))
    first, second = env.plugin(DynamicResources), env.plugin(DynamicResources)
    state = first.pre_filter(env.info(pod_with("a")), env.cluster)
    first.filter(state, env.cluster, env.cluster.rows_in_use())
    cycle: Any = SimpleNamespace(states={first.name: state})  # all of it that is looked at
    assert first.reserve(cycle, "n1") is None
    waits = "resource claim default/a is in the process of being allocated"
    assert env.refusals(second, pod_with("a")) == {"n1": (waits,), "n2": (waits,)}
    assert "n1" in env.refusals(second, pod_with("b"))
