# SPDX-License-Identifier: Apache-2.0
"""A change of a status within the process is what its patch makes of it on the wire."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus
from kubeloop.api.patch import apply_strategic_merge_patch
from kubeloop.api.scalars.wire import Time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.kubelet.status.status_manager import KubeletStatusPatch

_TYPES = ("PodScheduled", "Ready", "ContainersReady", "PodResizePending", "shop.example/warm")
_TIMES = (Time("2030-01-01T00:00:00Z"), Time("2030-01-01T00:00:05Z"))
_ADDRESSES = ("10.0.0.1", "10.0.0.2", "fd00::1")


def _conditions(types: tuple[str, ...]) -> st.SearchStrategy[tuple[PodCondition, ...]]:
    one = st.builds(
        PodCondition,
        type=st.sampled_from(types),
        status=st.sampled_from(("True", "False")),
        reason=st.sampled_from(("", "Late")),
        last_transition_time=st.sampled_from(_TIMES),
        observed_generation=st.just(1),
    )
    return st.lists(one, unique_by=lambda found: found.type).map(tuple)


def _statuses(types: tuple[str, ...]) -> st.SearchStrategy[PodStatus]:
    names = st.lists(st.sampled_from(("a", "b")), unique=True)
    return st.builds(
        PodStatus,
        phase=st.sampled_from(("Pending", "Running")),
        message=st.sampled_from(("", "wait")),
        host_ips=st.sampled_from(((), (HostIP(ip="172.16.0.1"),))),
        pod_ips=st.lists(st.sampled_from(_ADDRESSES), unique=True).map(lambda ips: tuple(PodIP(ip=ip) for ip in ips)),
        container_statuses=names.map(lambda found: tuple(ContainerStatus(name=name, image="i") for name in found)),
        conditions=_conditions(types),
        qos_class=st.just("Burstable"),
    )


def _patched(before: PodStatus, document: dict[str, Any]) -> PodStatus:
    live = {"status": codec.to_plain(before)}
    patch = {"status": codec.to_plain(document["status"])}
    patched = apply_strategic_merge_patch(live, patch, resource_of_class(Pod).schema_node)
    return codec.from_plain(patched["status"], PodStatus)


@given(_statuses(_TYPES), _statuses(_TYPES[:4]))
def test_change_equals_its_patch(before: PodStatus, after: PodStatus) -> None:
    change = KubeletStatusPatch("uid", before, after)
    laid = change.apply_to(before)
    if laid is not None:
        assert laid == _patched(before, change.document)


@given(_statuses(_TYPES[:1]), _statuses(_TYPES[:3]))
def test_first_status_needs_no_merge(before: PodStatus, after: PodStatus) -> None:
    scheduled = PodCondition(type="PodScheduled", status="True", last_transition_time=Time("2031-01-01T00:00:00Z"))
    whole = codec.from_plain({**codec.to_plain(after), "conditions": codec.to_plain((scheduled,))}, PodStatus)
    assert KubeletStatusPatch("uid", before, whole).apply_to(before) is not None


@given(_statuses(_TYPES))
def test_unchanged_status_has_no_patch(status: PodStatus) -> None:
    assert not KubeletStatusPatch("uid", status, status)


def test_concurrent_change_is_merged() -> None:
    before, after = PodStatus(phase="Pending"), PodStatus(phase="Running")
    assert KubeletStatusPatch("uid", before, after).apply_to(PodStatus(phase="Pending", reason="Mine")) is None


def test_removed_condition_is_merged() -> None:
    before = PodStatus(conditions=(PodCondition(type="PodResizePending", status="True"),))
    assert KubeletStatusPatch("uid", before, PodStatus()).apply_to(before) is None
