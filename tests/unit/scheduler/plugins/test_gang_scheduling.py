# SPDX-License-Identifier: Apache-2.0
"""Tests of the plugin GangScheduling on the framework: gates, hints, the minimum, and permits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.generated.core_v1 import Pod, PodSchedulingGroup, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.scheduling_v1beta1 import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import PodInfo, SignatureCache
from kubeloop.scheduler.framework.placement import PlacementProgress
from kubeloop.scheduler.framework.plugin import ClusterEventWithHint, PermitWait
from kubeloop.scheduler.framework.status import Code
from kubeloop.scheduler.plugins.podgroups.gang_scheduling import GangScheduling
from kubeloop.scheduler.podgroups.group_key import group_key
from kubeloop.scheduler.podgroups.manager import PodGroupManager
from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo
from kubeloop.scheduler.queue.cluster_event import POD_GROUPS, UNSCHEDULED_POD, ActionType


def group_of(least: int | None, name: str = "gang") -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=None if least is None else GangSchedulingPolicy(min_count=least))
    meta = ObjectMeta(name=name, namespace="default", uid=name)
    return PodGroup(metadata=meta, spec=PodGroupSpec(scheduling_policy=policy))


def pod_of(name: str, group: str | None = "gang", node: str = "") -> Pod:
    meta = ObjectMeta(name=name, namespace="default", uid=name)
    named = None if group is None else PodSchedulingGroup(pod_group_name=group)
    return Pod(metadata=meta, spec=PodSpec(scheduling_group=named, node_name=node))


class Harness:
    def __init__(self, least: int | None = 2) -> None:
        self.manager = PodGroupManager(has_composites=False)
        self.allowed: list[tuple[str, str]] = []
        self.activated: list[ObjectKey] = []
        waiting = SimpleNamespace(allow=lambda *said: self.allowed.append(said))
        handle: Any = SimpleNamespace(
            pod_groups=self.manager, features=DEFAULT_FEATURES, waiting_pods=waiting, activate=self.activated.extend
        )
        self.plugin = GangScheduling(handle, {})
        if least is not None:
            self.manager.set_group(group_of(least))

    def add(self, *names: str) -> None:
        for name in names:
            self.manager.set_pod(pod_of(name))

    def info(self, pod: Pod) -> PodInfo:
        return SignatureCache().pod_info(pod)

    def gate(self, name: str = "a", group: str | None = "gang") -> str:
        status = self.plugin.pre_enqueue(self.info(pod_of(name, group)))
        return "" if status is None else status.message

    def permit(self, name: str) -> Any:
        self.manager.handle_assumed(pod_of(name), "node")
        cycle: Any = SimpleNamespace(pod=self.info(pod_of(name)))
        return self.plugin.permit(cycle, "node")

    def hint(self, resource: str, action: ActionType) -> Any:
        found: list[ClusterEventWithHint] = [
            one for one in self.plugin.events_to_register() if one.resource == resource and one.actions & action
        ]
        return found[0].queueing_hint_fn


def test_pod_is_gated_until_its_group_is_known() -> None:
    assert Harness(None).gate() == 'waiting for pods\'s pod group "gang" to appear in scheduling queue'


def test_pod_is_gated_until_the_minimum_is_known() -> None:
    harness = Harness()
    harness.add("a")
    assert harness.gate() == "waiting for minCount pods from a gang to appear in scheduling queue"
    harness.add("b")
    assert harness.gate() == ""


def test_pod_without_group_is_not_gated() -> None:
    assert Harness(None).gate(group=None) == ""


@pytest.mark.parametrize(
    ("scheduled", "remaining", "code", "message"),
    [
        (0, 1, Code.UNSCHEDULABLE, "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"),
        (1, 1, Code.WAIT, "minCount (2) is not yet satisfied: 1 scheduled, 1 remaining"),
        (2, 5, None, ""),
    ],
)
def test_minimum_decides_about_a_placement(scheduled: int, remaining: int, code: Code | None, message: str) -> None:
    group = group_of(2)
    info = PodGroupInfo(group_key(group), group)
    found = Harness().plugin.placement_feasible(info, PlacementProgress(scheduled, remaining))
    assert (None if found is None else found.code) == code
    assert ("" if found is None else found.message) == message


def test_last_permit_allows_the_pods_that_wait() -> None:
    harness = Harness()
    harness.add("a", "b", "c")
    assert harness.permit("a") == PermitWait(300.0)
    assert set(harness.activated) == {ObjectKey("default", "b"), ObjectKey("default", "c")}
    assert harness.allowed == []
    assert harness.permit("b") is None
    assert ("a", "GangScheduling") in harness.allowed


def test_bound_pods_count_for_the_permit() -> None:
    harness = Harness()
    harness.add("a")
    harness.manager.set_pod(pod_of("b", node="n"))
    assert harness.permit("a") is None


def test_forgotten_pod_does_not_count() -> None:
    harness = Harness()
    harness.add("a", "b")
    harness.permit("a")
    harness.manager.handle_forgotten(pod_of("a"))
    assert harness.permit("b") == PermitWait(300.0)


def test_hints_concern_the_same_group_only() -> None:
    harness = Harness()
    waiting = harness.info(pod_of("a"))
    added = harness.hint(UNSCHEDULED_POD, ActionType.ADD)
    assert added(waiting, None, pod_of("b"))
    assert not added(waiting, None, pod_of("b", "other"))
    assert not added(waiting, None, pod_of("b", None))
    new_group = harness.hint(POD_GROUPS, ActionType.ADD)
    assert new_group(waiting, None, group_of(2))
    assert not new_group(waiting, None, group_of(2, "other"))


def test_only_a_smaller_minimum_helps() -> None:
    harness = Harness()
    waiting = harness.info(pod_of("a"))
    changed = harness.hint(POD_GROUPS, ActionType.UPDATE)
    assert changed(waiting, group_of(3), group_of(2))
    assert not changed(waiting, group_of(2), group_of(3))
    assert not changed(waiting, group_of(3), group_of(3))
    assert not changed(waiting, group_of(None), group_of(None))
