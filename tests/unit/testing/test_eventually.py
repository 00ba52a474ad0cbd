# SPDX-License-Identifier: Apache-2.0
"""Tests of `Cluster.eventually`: what counts as not yet, and what its error says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.operator import Controller, ControllerContext, ObjectKey, Result, own_key
from kubeloop.testing import Cluster, LoopEndedError, config_map, pod
from tests.unit.testing.counting_controller import counting

MakeCluster = Callable[..., Cluster]


def controller_of(behave: Callable[[ObjectKey], Result | None]) -> Callable[[ControllerContext], Controller[ObjectKey]]:
    """Return the wiring of a controller of the labelled ConfigMaps that behaves in a way."""

    def wire(context: ControllerContext) -> Controller[ObjectKey]:
        config_maps = context.informers.for_resource(ConfigMap, labels="mine")

        async def reconcile(key: ObjectKey) -> Result | None:
            return behave(key)

        controller = Controller("mine", reconcile, context.clock)
        controller.watches(config_maps, own_key)
        return controller

    return wire


def failure_of(cluster: Cluster, look: Callable[[], object], within: float = 1) -> str:
    with pytest.raises(AssertionError) as caught:
        cluster.eventually(look, within=within)
    return str(caught.value)


def test_object_that_does_not_exist_yet_is_awaited(cluster: Cluster) -> None:
    def wire(context: ControllerContext) -> Controller[str]:
        async def reconcile(name: str) -> None:
            await context.client.create(config_map(name))

        controller = Controller("late", reconcile, context.clock)
        controller.queue.add_after("late", 5)
        return controller

    cluster.start(wire)
    assert cluster.eventually(lambda: cluster.client.get(ConfigMap, "late", "default")).metadata.name == "late"
    text = failure_of(cluster, lambda: cluster.client.get(ConfigMap, "never", "default"))
    assert 'still NotFound: configmaps "never" not found after 1 s' in text


def test_assertions_are_repeated(cluster: Cluster) -> None:
    def look() -> bool:
        assert cluster.clock.monotonic() > 5, "too early"
        return True

    assert cluster.eventually(look)

    def never() -> None:
        raise AssertionError("three are ready")

    assert "still AssertionError: three are ready after 1 s" in failure_of(cluster, never)


def test_other_errors_are_raised_at_once(cluster: Cluster) -> None:
    with pytest.raises(KeyError):
        cluster.eventually(lambda: {}["missing"])
    with pytest.raises(errors.Invalid):
        cluster.eventually(lambda: cluster.client.create(config_map("Not A Name")))
    assert cluster.clock.monotonic() == 0


def test_ended_loop_is_not_hidden(cluster: Cluster) -> None:
    def look() -> None:
        raise LoopEndedError("x has ended")

    with pytest.raises(LoopEndedError):
        cluster.eventually(look)
    assert cluster.clock.monotonic() == 0


def test_async_condition_is_refused(cluster: Cluster) -> None:
    async def look() -> bool:
        return True

    with pytest.raises(TypeError, match=r"must not be async: use cluster\.client"):
        cluster.eventually(look)


def test_error_shows_the_last_value(cluster: Cluster) -> None:
    assert failure_of(cluster, list) == "still [] after 1 s\nPending work:\n  none"


# Pending work.


def test_error_shows_failing_keys(cluster: Cluster) -> None:
    def fail(key: ObjectKey) -> None:
        raise ValueError(f"no idea about {key}")

    cluster.start(controller_of(fail), may_fail=True)
    cluster.add(config_map("one", labels={"mine": "yes"}))
    assert "  mine: waiting: default/one for" in (text := failure_of(cluster, lambda: 0))
    assert "after 8 failures, the last one ValueError: no idea about default/one" in text


def test_error_shows_timers(cluster: Cluster) -> None:
    cluster.start(controller_of(lambda _: Result(requeue_after=600)))
    cluster.add(config_map("one", labels={"mine": "yes"}))
    assert "  mine: waiting: default/one for 599 s" in failure_of(cluster, lambda: 0)


def test_error_shows_calls_that_are_not_answered(cluster: Cluster) -> None:
    cluster.start(counting)
    cluster.faults.delay(20, "patch", "configmaps")
    cluster.add(config_map("one", {"a": "1"}, labels={"count": "yes"}))
    assert "  counting: running: default/one" in failure_of(cluster, lambda: 0)


def test_error_shows_lists_that_fail(cluster: Cluster) -> None:
    cluster.faults.fail("read", "configmaps", times=None)
    cluster.start(counting)
    text = failure_of(cluster, lambda: 0)
    assert "  counting: waiting for caches: configmaps (ServiceUnavailable: the server is currently" in text


def test_error_shows_unscheduled_pods(cluster: Cluster, make_cluster: MakeCluster) -> None:
    cluster.add(pod("single"))
    assert "  pod default/single is not scheduled: no scheduler runs" in failure_of(cluster, lambda: 0)
    planned = make_cluster(plane=True)
    planned.add(pod("single"))
    assert "Unschedulable: no nodes available to schedule pods" in failure_of(planned, lambda: 0)


def test_error_is_bounded(cluster: Cluster) -> None:
    cluster.add(*(pod(f"p{number}") for number in range(40)))
    text = failure_of(cluster, lambda: 0)
    assert text.count("is not scheduled") == 10
    assert text.endswith("and 30 more")


def test_error_of_a_live_cluster_shows_pending_work(live_cluster: Cluster) -> None:
    live_cluster.add(pod("single"))
    assert "pod default/single is not scheduled" in failure_of(live_cluster, lambda: 0, within=0.1)
