# SPDX-License-Identifier: Apache-2.0
"""Resources in container statuses: what the runtime reports, else what the container was given."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod, PodStatus, ResourceRequirements
from kubeloop.api.scalars.wire import Time
from kubeloop.kubelet.cri.messages.container import ContainerState, ContainerStatus
from kubeloop.kubelet.cri.messages.resources import ContainerResources, LinuxContainerResources
from kubeloop.kubelet.cri.pod_status import run_of
from kubeloop.kubelet.runtime import ContainerRun, EffectiveResources, PodObservation
from kubeloop.kubelet.status.container_status import app_container_statuses
from kubeloop.kubelet.sync.pod_state import PodState


def requirements(cpu: str, memory: str, limit: str = "") -> ResourceRequirements:
    both = {"cpu": cpu, "memory": memory}
    return codec.from_plain({"requests": both, "limits": {**both, "cpu": limit or cpu}}, ResourceRequirements)


RUN = ContainerRun(
    container="c",
    id="x://1",
    attempt=0,
    image="i",
    image_id="",
    state="running",
    created_at=datetime(2030, 1, 1, tzinfo=UTC),
)


def shown(allocated: ResourceRequirements, run: ContainerRun) -> ResourceRequirements | None:
    container = {"name": "c", "image": "i", "resources": codec.to_plain(allocated)}
    pod = codec.from_plain({"spec": {"containers": [container]}}, Pod)
    memory = PodState(reported_status=PodStatus(), first_seen=Time("2030-01-01T00:00:00Z"))
    (status,) = app_container_statuses(pod, PodObservation(runs={"c": (run,)}), memory)
    return status.resources


def test_values_of_the_runtime_are_shown() -> None:
    run = msgspec.structs.replace(RUN, effective=EffectiveResources(200, 300, 64 << 20))
    assert shown(requirements("100m", "32Mi"), run) == codec.from_plain(
        {"requests": {"cpu": "200m", "memory": "32Mi"}, "limits": {"cpu": "300m", "memory": "64Mi"}},
        ResourceRequirements,
    )


def test_values_below_those_of_the_kernel_are_shown_as_allocated() -> None:
    run = msgspec.structs.replace(RUN, effective=EffectiveResources(2, 10, 0))
    assert shown(requirements("1m", "32Mi", "5m"), run) == requirements("1m", "32Mi", "5m")


@pytest.mark.parametrize("state", ["running", "exited"])
def test_without_them_it_is_what_the_container_was_given(state: str) -> None:
    old, new = requirements("100m", "32Mi"), requirements("200m", "32Mi")
    run = msgspec.structs.replace(RUN, resources=old, state=state)
    assert shown(new, run) == (old if state == "running" else new)


def test_reports_of_runtimes_are_read() -> None:
    linux = LinuxContainerResources(cpu_period=100_000, cpu_quota=50_000, cpu_shares=512, memory_limit_in_bytes=99)
    status = ContainerStatus(state=ContainerState.RUNNING, resources=ContainerResources(linux=linux))
    assert run_of(status, "x").effective == EffectiveResources(500, 500, 99)
    free = LinuxContainerResources(cpu_quota=-1, cpu_period=100_000)
    status = msgspec.structs.replace(status, resources=ContainerResources(linux=free))
    assert run_of(status, "x").effective is None
    assert run_of(msgspec.structs.replace(status, resources=None), "x").effective is None
