# SPDX-License-Identifier: Apache-2.0
"""Collection of a real node's statistics from a fake runtime, control groups and a proc file system in files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    EmptyDirVolumeSource,
    Pod,
    PodSpec,
    PodStatus,
    Volume,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.apiserver.kubelet_client.resource_metrics import parse_scrape, usage_between
from kubeloop.grpc.streams import UNIMPLEMENTED, UNKNOWN, RpcError
from kubeloop.kubelet.cri.config.labels import CONTAINER_NAME, POD_UID
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.messages import stats as st
from kubeloop.kubelet.cri.messages.sandbox import PodSandbox, PodSandboxState
from kubeloop.kubelet.cri.stats.cgroup_stats import CgroupReader
from kubeloop.kubelet.cri.stats.collector import StatsCollector, StatsNode, StatsSources
from kubeloop.kubelet.cri.stats.machine_stats import MachineReader
from kubeloop.kubelet.cri.stats.provider import CriStatsProvider
from kubeloop.kubelet.node_status.machine import MachineResources
from kubeloop.kubelet.runtime import ContainerUsage

_START = datetime(2030, 1, 1, tzinfo=UTC)
_MIB = 1 << 20
_POD = Pod(
    metadata=ObjectMeta(name="web", namespace="shop", uid="u1"),
    spec=PodSpec(
        containers=(Container(name="app"),),
        volumes=(Volume(name="data", empty_dir=EmptyDirVolumeSource()),),
    ),
    status=PodStatus(
        qos_class="BestEffort",
        start_time=Time("2029-12-31T23:59:00Z"),
        container_statuses=(
            ContainerStatus(
                name="app",
                state=ContainerState(running=ContainerStateRunning(started_at=Time("2029-12-31T23:59:30Z"))),
            ),
        ),
    ),
)


class FakeClock:
    """Clock that the test advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return _START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def random(self) -> Random:
        return Random(0)


class FakeServices:
    """Runtime with one container, which uses a quarter of a core."""

    def __init__(self, clock: FakeClock, folder: Path) -> None:
        self._clock = clock
        self._folder = folder
        self.calls = 0
        self.sandbox_calls = 0
        self.reported_rate = 0
        self.error: RpcError | None = None
        self.has_sandbox_stats = True
        self.has_dead_sandbox = False

    def _nanoseconds(self) -> int:
        return int(self._clock.now().timestamp() * 10**9)

    async def list_container_stats(self) -> tuple[st.ContainerStats, ...]:
        self.calls += 1
        if self.error is not None:
            raise self.error
        used = int((100 + 0.25 * self._clock.seconds) * 10**9)
        return (
            st.ContainerStats(
                attributes=st.ContainerAttributes(id="c1", labels={POD_UID: "u1", CONTAINER_NAME: "app"}),
                cpu=st.CpuUsage(
                    timestamp=self._nanoseconds(),
                    usage_core_nano_seconds=st.UInt64Value(value=used),
                    usage_nano_cores=st.UInt64Value(value=self.reported_rate),
                ),
                memory=st.MemoryUsage(timestamp=self._nanoseconds(), working_set_bytes=st.UInt64Value(value=5 * _MIB)),
                writable_layer=st.FilesystemUsage(used_bytes=st.UInt64Value(value=_MIB)),
            ),
        )

    async def list_pod_sandbox_stats(self) -> tuple[st.PodSandboxStats, ...]:
        self.sandbox_calls += 1
        if not self.has_sandbox_stats:
            raise RpcError(UNIMPLEMENTED, "unknown method")
        if self.has_dead_sandbox:
            raise RpcError(UNKNOWN, "sandbox s2 is not in ready state")
        return (await self.pod_sandbox_stats("s1"),)

    async def list_pod_sandboxes(self, labels: Mapping[str, str]) -> tuple[PodSandbox, ...]:
        return PodSandbox(id="s1"), PodSandbox(id="s2", state=PodSandboxState.NOTREADY)

    async def pod_sandbox_stats(self, id: str) -> st.PodSandboxStats:
        assert id == "s1"
        eth0 = st.NetworkInterfaceUsage(name="eth0", rx_bytes=st.UInt64Value(value=7))
        linux = st.LinuxPodSandboxStats(network=st.NetworkUsage(default_interface=eth0))
        return st.PodSandboxStats(attributes=st.PodSandboxAttributes(id="s1", labels={POD_UID: "u1"}), linux=linux)

    async def image_fs_info(self) -> st.ImageFsInfoResponse:
        fs = st.FilesystemUsage(
            fs_id=st.FilesystemIdentifier(mountpoint=str(self._folder)), used_bytes=st.UInt64Value(value=9)
        )
        return st.ImageFsInfoResponse(image_filesystems=(fs,))


class Node:
    """Collector with its sources in a folder."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.services = FakeServices(self.clock, folder)
        self.cgroups, proc = folder / "cgroup", folder / "proc"
        (proc / "net").mkdir(parents=True)
        (proc / "sys/kernel").mkdir(parents=True)
        (proc / "stat").write_text("cpu 1 2\nbtime 1893456000\n")
        (proc / "loadavg").write_text("0.1 0.2 0.3 2/321 999\n")
        (proc / "meminfo").write_text("MemTotal: 100 kB\nSwapTotal: 8 kB\nSwapFree: 2 kB\n")
        (proc / "sys/kernel/pid_max").write_text("32768\n")
        (proc / "sys/kernel/threads-max").write_text("9999\n")
        (proc / "net/dev").write_text("h\nh\n  lo: 1 0 0 0 0 0 0 0 1 0 0\n ens4: 11 0 2 0 0 0 0 0 33 0 4 0 0\n")
        (proc / "net/route").write_text("Iface\tDestination\nens4\t00000000\t\n")
        self.write_cgroup("/", 50.0)
        self.paths = NodePaths(folder / "kubelet", folder / "logs")
        sources = StatsSources(self.services, self.services, CgroupReader(self.cgroups), MachineReader(proc))
        node = StatsNode(
            "n1", self.paths, lambda pod: f"/kubepods/besteffort/pod{pod.metadata.uid}", 100 * _MIB, lambda: [_POD]
        )
        self.collector = StatsCollector(node, sources, self.clock)
        self.provider = CriStatsProvider(self.collector, MachineResources(2, 100 * _MIB, 0))

    def write_cgroup(self, group: str, cpu_seconds: float) -> None:
        for controller, name, text in (
            ("cpuacct", "cpuacct.usage", str(int(cpu_seconds * 10**9))),
            ("memory", "memory.usage_in_bytes", str(30 * _MIB)),
            (
                "memory",
                "memory.stat",
                f"inactive_file 1\ntotal_inactive_file {10 * _MIB}\ntotal_rss 5\ntotal_pgfault 6\n",
            ),
        ):
            file = self.cgroups / controller / group.strip("/") / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def summary(self, at: float) -> dict[str, Any]:
        self.clock.seconds = at
        return asyncio.run(self.provider.summary())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_rate_is_the_difference_of_cpu_times_if_the_runtime_gives_none(node: Node) -> None:
    (pod,) = node.summary(0.0)["pods"]
    assert "usageNanoCores" not in pod["containers"][0]["cpu"]
    (pod,) = node.summary(10.0)["pods"]
    assert pod["containers"][0]["cpu"]["usageNanoCores"] == 250_000_000
    node.services.reported_rate = 7
    (pod,) = node.summary(20.0)["pods"]
    assert pod["containers"][0]["cpu"]["usageNanoCores"] == 7


def test_statistics_are_collected_once_in_ten_seconds(node: Node) -> None:
    for at in (0.0, 3.0, 9.9):
        node.summary(at)
    assert node.services.calls == 1
    node.summary(10.0)
    assert node.services.calls == 2


def test_usage_of_the_pod_is_that_of_its_control_group(node: Node) -> None:
    (pod,) = node.summary(0.0)["pods"]
    assert pod["memory"]["workingSetBytes"] == 5 * _MIB
    group = "/kubepods/besteffort/podu1"
    node.write_cgroup(group, 200.0)
    node.summary(10.0)
    node.write_cgroup(group, 205.0)
    (pod,) = node.summary(20.0)["pods"]
    assert pod["memory"]["workingSetBytes"] == 20 * _MIB
    assert pod["cpu"]["usageNanoCores"] == 500_000_000
    assert pod["network"]["rxBytes"] == 7


def test_usage_of_the_node(node: Node) -> None:
    node.summary(0.0)
    node.write_cgroup("/", 60.0)
    found = node.summary(10.0)["node"]
    assert found["cpu"]["usageNanoCores"] == 10**9
    assert found["memory"]["availableBytes"] == 80 * _MIB
    assert (found["rlimit"]["maxpid"], found["rlimit"]["curproc"]) == (9999, 321)
    assert (found["network"]["name"], found["network"]["rxBytes"], found["network"]["txErrors"]) == ("ens4", 11, 4)
    assert found["swap"]["swapUsageBytes"] == 6 * 1024
    assert found["fs"]["capacityBytes"] > 0
    assert found["runtime"]["imageFs"]["usedBytes"] == 9
    assert found["startTime"] == "2030-01-01T00:00:00Z"


def test_storage_is_that_of_layer_logs_and_volumes(node: Node) -> None:
    log = node.paths.logs(_POD) / "app" / "0.log"
    volume = node.paths.volumes("u1") / "kubernetes.io~empty-dir" / "data" / "file"
    for file in (log, volume):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x" * 64 * 1024)
    (pod,) = node.summary(0.0)["pods"]
    logs, volumes = pod["containers"][0]["logs"]["usedBytes"], pod["volume"][0]["usedBytes"]
    assert logs >= 64 * 1024 <= volumes
    assert pod["ephemeral-storage"]["usedBytes"] == _MIB + logs + volumes
    assert node.collector.usage_of("u1") == {"app": ContainerUsage(0, 5 * _MIB, _MIB + logs)}


def test_runtime_without_sandbox_statistics_is_asked_once(node: Node) -> None:
    node.services.has_sandbox_stats = False
    for at in (0.0, 10.0, 20.0):
        assert "network" not in node.summary(at)["pods"][0]
    assert node.services.sandbox_calls == 1


def test_a_dead_sandbox_does_not_hide_the_others(node: Node) -> None:
    node.services.has_dead_sandbox = True
    assert node.summary(0.0)["pods"][0]["network"]["rxBytes"] == 7


def test_metrics_server_computes_usage_from_two_scrapes(node: Node) -> None:
    before = parse_scrape(asyncio.run(node.provider.resource_metrics()), 0.0)
    node.write_cgroup("/", 65.0)
    node.clock.seconds = 15.0
    now = parse_scrape(asyncio.run(node.provider.resource_metrics()), 99.0)
    usage = usage_between(before, now, ("shop", "web", "app"))
    assert usage is not None
    assert (usage.cpu_nanocores, usage.memory_bytes) == (250_000_000, 5 * _MIB)
    whole = usage_between(before, now, ("", "", ""))
    assert whole is not None
    assert whole.cpu_nanocores == 10**9


def test_scrape_error_is_reported_if_the_runtime_does_not_answer(node: Node) -> None:
    node.services.error = RpcError(14, "down")
    assert asyncio.run(node.provider.resource_metrics()).endswith("resource_scrape_error 1\n")
    with pytest.raises(RpcError):
        asyncio.run(node.provider.summary())


def test_cadvisor_page_has_containers_pods_and_node(node: Node) -> None:
    node.write_cgroup("/kubepods/besteffort/podu1", 200.0)
    lines = asyncio.run(node.provider.container_metrics()).splitlines()
    pod = 'id="/kubepods/besteffort/podu1",namespace="shop",pod="web"'
    assert any(
        line.startswith(f'container_cpu_usage_seconds_total{{container="",cpu="total",{pod}}} 200 ') for line in lines
    )
    container = 'id="/kubepods/besteffort/podu1/c1",namespace="shop",pod="web"'
    assert any(line.startswith(f'container_memory_working_set_bytes{{container="app",{container}}}') for line in lines)
    assert any(line.startswith('container_memory_working_set_bytes{container="",id="/",') for line in lines)
    assert "machine_cpu_cores 2" in lines


def test_unified_control_groups(tmp_path: Path) -> None:
    group = tmp_path / "kubepods"
    group.mkdir()
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (group / "cpu.stat").write_text("usage_usec 5\nuser_usec 3\n")
    (group / "memory.current").write_text("100\n")
    (group / "memory.stat").write_text("anon 30\ninactive_file 40\npgfault 2\n")
    (group / "pids.current").write_text("3\n")
    reader = CgroupReader(tmp_path)
    assert reader.cpu_nanoseconds("/kubepods") == 5000
    memory = reader.memory("/kubepods", "now")
    assert memory is not None
    assert (memory.working_set_bytes, memory.rss_bytes, memory.page_faults) == (60, 30, 2)
    assert reader.processes("/kubepods") == 3
    assert reader.memory("/other", "now") is None
