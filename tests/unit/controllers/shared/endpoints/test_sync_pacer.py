# SPDX-License-Identifier: Apache-2.0
"""Large services rest between writes, small ones don't; moments of changes; patches of maps."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Pod, PodCondition, PodStatus, Service
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.shared.endpoints.sync_pacer import pause_after
from kubeloop.controllers.shared.endpoints.trigger_times import TriggerTimeTracker
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import map_patch

KEY = ObjectKey("d", "s")


def test_delay_grows_with_the_service_up_to_a_second() -> None:
    assert [pause_after(size) for size in (0, 5, 10, 1000, 10**6)] == [0.0, 0.0, 0.005, 0.5, 1.0]


def moment(second: int) -> Time:
    return Time(f"2026-01-01T00:00:{second:02}Z")


def a_service(second: int) -> Service:
    return Service(metadata=ObjectMeta(name="s", namespace="d", creation_timestamp=moment(second)))


def a_pod(name: str, second: int | None) -> Pod:
    ready = PodCondition(type="Ready", status="True", last_transition_time=None if second is None else moment(second))
    return Pod(metadata=ObjectMeta(name=name), status=PodStatus(conditions=(ready,)))


def test_first_sync_has_the_creation_time_of_the_service() -> None:
    assert TriggerTimeTracker().compute_trigger_time(KEY, a_service(1), [a_pod("p", 5)]) == moment(1)


def test_later_syncs_have_the_earliest_change_since() -> None:
    times = TriggerTimeTracker()
    times.compute_trigger_time(KEY, a_service(1), [a_pod("p", 5)])
    assert times.compute_trigger_time(KEY, a_service(1), [a_pod("p", 5)]) == ""
    assert times.compute_trigger_time(KEY, a_service(1), [a_pod("p", 9), a_pod("q", 7), a_pod("r", None)]) == moment(7)
    assert times.compute_trigger_time(KEY, a_service(1), [a_pod("p", 9)]) == ""
    assert times.compute_trigger_time(KEY, a_service(8), [a_pod("p", 9)]) == moment(8)


def test_forgotten_service_starts_from_scratch() -> None:
    times = TriggerTimeTracker()
    times.compute_trigger_time(KEY, a_service(1), [])
    assert times.has_state(KEY)
    times.forget(KEY)
    assert not times.has_state(KEY)
    assert times.compute_trigger_time(KEY, a_service(1), []) == moment(1)


def test_map_patch_has_only_differences() -> None:
    assert map_patch({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "5", "d": "4"}) == {"b": "5", "c": None, "d": "4"}
    assert map_patch({}, {}) == {}
