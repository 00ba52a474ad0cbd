# SPDX-License-Identifier: Apache-2.0
"""Limits of the kernel: tables with upstream's values."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from kubeloop.kubelet.cri.config.linux_resources import (
    MachineMemory,
    container_resources,
    format_page_size,
    oom_score,
    overhead_resources,
    pod_memory_limit,
    sandbox_resources,
)
from kubeloop.kubelet.cri.config.resource_policy import ResourcePolicy
from kubeloop.kubelet.cri.messages.resources import HugepageLimit, LinuxContainerResources

MIB, GIB = 1 << 20, 1 << 30
MEMORY = MachineMemory(4 * GIB, ("2MB", "1GB"))


def make(name: str = "c", requests: str = "", limits: str = "", *, restart: str | None = None) -> Container:
    return Container(
        name=name, restart_policy=restart, resources=ResourceRequirements(requests=_map(requests), limits=_map(limits))
    )


def _map(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split())  # type: ignore[misc]


def make_pod(*containers: Container, init: tuple[Container, ...] = (), requests: str = "", limits: str = "") -> Pod:
    whole = ResourceRequirements(requests=_map(requests), limits=_map(limits)) if requests or limits else None
    return Pod(spec=PodSpec(containers=containers, init_containers=init, resources=whole))


@pytest.mark.parametrize(
    ("requests", "limits", "shares", "quota", "memory"),
    [
        ("", "", 2, 0, 0),
        ("cpu=0", "cpu=1", 2, 100_000, 0),
        ("cpu=1m", "", 2, 0, 0),
        ("cpu=2m", "", 2, 0, 0),
        ("cpu=3m", "", 3, 0, 0),
        ("cpu=100m", "", 102, 0, 0),
        ("cpu=500m", "cpu=1500m", 512, 150_000, 0),
        ("", "cpu=2", 2048, 200_000, 0),
        ("cpu=1", "cpu=1m", 1024, 1000, 0),
        ("cpu=1", "cpu=10m", 1024, 1000, 0),
        ("cpu=1", "cpu=11m", 1024, 1100, 0),
        ("cpu=100u", "cpu=100u", 2, 1000, 0),
        ("cpu=256", "", 262_144, 0, 0),
        ("cpu=1000", "", 262_144, 0, 0),
        ("memory=1Gi", "memory=2Gi", 2, 0, 2 * GIB),
        ("", "memory=1500m", 2, 0, 2),
    ],
)
def test_shares_quota_and_memory(requests: str, limits: str, shares: int, quota: int, memory: int) -> None:
    container = make(requests=requests, limits=limits)
    found = container_resources(make_pod(container), container, MEMORY)
    assert (found.cpu_shares, found.cpu_quota, found.cpu_period) == (shares, quota, 100_000)
    assert found.memory_limit_in_bytes == memory


@pytest.mark.parametrize(
    ("container", "pod_requests", "pod_limits", "expected"),
    [
        (make(), "cpu=1", "cpu=2 memory=1Gi", (2048, 200_000, GIB)),
        (make(limits="cpu=1"), "", "cpu=2 memory=1Gi", (1024, 100_000, GIB)),
        (make(limits="cpu=0 memory=1Mi"), "", "cpu=2 memory=1Gi", (2048, 200_000, MIB)),
        (make(requests="cpu=100m"), "", "cpu=2", (102, 200_000, 0)),
        (make(), "cpu=1", "", (2, 0, 0)),
    ],
)
def test_limits_of_the_pod_fill_in(
    container: Container, pod_requests: str, pod_limits: str, expected: tuple[int, int, int]
) -> None:
    pod = make_pod(container, requests=pod_requests, limits=pod_limits)
    found = container_resources(pod, container, MEMORY)
    assert (found.cpu_shares, found.cpu_quota, found.memory_limit_in_bytes) == expected


@pytest.mark.parametrize(
    ("own", "of_pod", "expected"),
    [
        ("", "", (0, 0)),
        ("hugepages-2Mi=4Mi", "", (4 * MIB, 0)),
        ("hugepages-2Mi=4Mi hugepages-1Gi=2Gi", "", (4 * MIB, 2 * GIB)),
        ("", "hugepages-2Mi=8Mi", (8 * MIB, 0)),
        ("hugepages-2Mi=4Mi", "hugepages-2Mi=8Mi hugepages-1Gi=1Gi", (4 * MIB, GIB)),
        ("hugepages-64Ki=64Ki", "", (0, 0)),  # the machine has no such pages
    ],
)
def test_every_huge_page_size_of_the_machine_is_limited(own: str, of_pod: str, expected: tuple[int, int]) -> None:
    container = make(limits=own)
    found = container_resources(make_pod(container, limits=of_pod), container, MEMORY)
    sizes = zip(MEMORY.huge_page_sizes, expected, strict=True)
    assert found.hugepage_limits == tuple(HugepageLimit(page_size=size, limit=limit) for size, limit in sizes)


@pytest.mark.parametrize(
    ("size", "text"), [(64 << 10, "64KB"), (2 * MIB, "2MB"), (512 * MIB, "512MB"), (16 * GIB, "16GB")]
)
def test_names_of_page_sizes(size: int, text: str) -> None:
    assert format_page_size(size) == text


# The values of upstream's policy_test.go, for a machine of 4 GiB.
STANDARD = 4_000_000_000


@pytest.mark.parametrize(
    ("container", "low", "high"),
    [
        (make(requests=f"memory={STANDARD // 2}", limits="cpu=10m"), 500, 500),
        (make(requests=f"memory={STANDARD}"), 3, 3),
        (make(requests=f"memory={STANDARD - 1}"), 3, 3),
        (make(requests="memory=1"), 999, 999),
        (make(requests="cpu=1"), 999, 999),
        (make(requests=f"memory={STANDARD // 10}"), 900, 900),
        (make(requests=f"memory={2 * STANDARD}"), 3, 3),
    ],
)
def test_oom_scores_of_burstable_containers(container: Container, low: int, high: int) -> None:
    assert low <= oom_score(make_pod(container), container, STANDARD) <= high


def test_oom_scores_of_the_other_classes() -> None:
    guaranteed, nothing = make(requests="cpu=1 memory=1Gi", limits="cpu=1 memory=1Gi"), make()
    assert oom_score(make_pod(guaranteed), guaranteed, STANDARD) == -997
    assert oom_score(make_pod(nothing), nothing, STANDARD) == 1000
    critical = Pod(
        spec=PodSpec(containers=(nothing,), priority=2_000_001_000, priority_class_name="system-node-critical")
    )
    assert oom_score(critical, nothing, STANDARD) == -997
    cluster = Pod(
        spec=PodSpec(containers=(nothing,), priority=2_000_000_000, priority_class_name="system-cluster-critical")
    )
    assert oom_score(cluster, nothing, STANDARD) == 1000
    reported = Pod(spec=PodSpec(containers=(nothing,)), status=PodStatus(qos_class="Guaranteed"))
    assert oom_score(reported, nothing, STANDARD) == -997


@pytest.mark.parametrize(
    ("sidecar", "regular", "score"),
    [
        (make("s", "memory=400M", restart="Always"), make(requests="memory=2G"), 500),
        (make("s", "memory=2G", restart="Always"), make(requests="memory=400M"), 500),
        (make("s", "memory=400M"), make(requests="memory=2G"), 900),
        (make("s", restart="Always"), make(requests="cpu=1"), 999),
    ],
)
def test_a_sidecar_does_not_die_before_the_containers_it_serves(
    sidecar: Container, regular: Container, score: int
) -> None:
    assert oom_score(make_pod(regular, init=(sidecar,)), sidecar, STANDARD) == score


def test_a_regular_container_that_always_restarts_is_no_sidecar() -> None:
    always, other = make("a", "memory=400M", restart="Always"), make("b", "memory=2G")
    assert oom_score(make_pod(always, other), always, STANDARD) == 900


def test_memory_that_only_the_pod_requests_is_shared_by_all_containers() -> None:
    one, two, init = make("one", "memory=400M"), make("two"), make("init", "memory=200M")
    pod = make_pod(one, two, init=(init,), requests="memory=1600M")
    # 1600M without the 400M of the containers are 1200M, 400M for each of three.
    assert [oom_score(pod, each, STANDARD) for each in (one, two, init)] == [800, 900, 850]
    sidecar = make("s", restart="Always")
    pod = make_pod(one, init=(sidecar,), requests="memory=1200M")
    assert [oom_score(pod, each, STANDARD) for each in (one, sidecar)] == [800, 800]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (make_pod(make()), (2, 0, 0)),
        (make_pod(make("a", "cpu=1", "cpu=2 memory=1Gi"), make("b", "cpu=1", "memory=1Gi")), (2048, 200_000, 2 * GIB)),
        (make_pod(make(limits="cpu=1")), (1024, 100_000, 0)),
        (make_pod(make(requests="cpu=1"), init=(make("i", "cpu=3"),)), (3072, 0, 0)),
        (make_pod(make(requests="cpu=1"), init=(make("s", "cpu=2", restart="Always"),)), (3072, 0, 0)),
        (make_pod(make("a", "cpu=1", "memory=1Gi"), requests="cpu=4", limits="cpu=4"), (4096, 400_000, GIB)),
        (make_pod(make("a", "cpu=1", "cpu=1"), limits="memory=2Gi"), (1024, 100_000, 2 * GIB)),
    ],
)
def test_resources_of_a_sandbox(pod: Pod, expected: tuple[int, int, int]) -> None:
    found = sandbox_resources(pod, ResourcePolicy())
    assert (found.cpu_shares, found.cpu_quota, found.memory_limit_in_bytes) == expected


@pytest.mark.parametrize(
    ("overhead", "expected"),
    [
        ("", LinuxContainerResources()),
        (
            "cpu=250m memory=64Mi",
            LinuxContainerResources(
                cpu_period=100_000, cpu_quota=25_000, cpu_shares=256, memory_limit_in_bytes=64 * MIB
            ),
        ),
        ("memory=64Mi", LinuxContainerResources(cpu_period=100_000, cpu_shares=2, memory_limit_in_bytes=64 * MIB)),
    ],
)
def test_overhead_is_requested_and_limited(overhead: str, expected: LinuxContainerResources) -> None:
    assert overhead_resources(Pod(spec=PodSpec(overhead=_map(overhead))), ResourcePolicy()) == expected


def test_the_memory_limit_of_a_pod_needs_one_for_every_container() -> None:
    one, two = make("a", limits="memory=1Gi"), make("b")
    assert pod_memory_limit(make_pod(one)) == GIB
    assert pod_memory_limit(make_pod(one, two)) == 0
    assert pod_memory_limit(make_pod(one, init=(two,))) == 0
    assert pod_memory_limit(make_pod(two, limits="memory=2Gi")) == 2 * GIB
    assert pod_memory_limit(Pod(spec=PodSpec(containers=(one,), overhead={"memory": "1Mi"}))) == GIB + MIB
