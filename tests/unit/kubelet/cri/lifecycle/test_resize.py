# SPDX-License-Identifier: Apache-2.0
"""In-place resize: the order of changes, refused changes, and what survives a restart of the kubelet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.grpc.streams import INTERNAL, UNIMPLEMENTED, RpcError
from kubeloop.kubelet.checkpoints.store import CheckpointStore, CorruptCheckpoint
from kubeloop.kubelet.cm.cgroups.manager import CgroupManager
from kubeloop.kubelet.cm.cgroups.names import ROOT, CgroupName, child
from kubeloop.kubelet.cm.cgroups.pods import PodContainerManager
from kubeloop.kubelet.cm.cgroups.resource_config import PodCgroupPolicy, ResourceConfig
from kubeloop.kubelet.cm.resource_managers import ResourceManager, ResourceManagers
from kubeloop.kubelet.cm.topology.manager import AffinityStore, TopologyManager
from kubeloop.kubelet.cri.config.linux_resources import MachineMemory
from kubeloop.kubelet.cri.lifecycle.actuated_state import CHECKPOINT, ActuatedState
from kubeloop.kubelet.cri.lifecycle.resize import PodResizer
from kubeloop.kubelet.cri.messages import stats as st
from kubeloop.kubelet.cri.messages.resources import LinuxContainerResources
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.kubelet.runtime import PodResizeError
from tests.unit.kubelet.cm.cgroups.fake_cgroups import FakeCgroupV1

MIB = 1 << 20


def pod_with(*sizes: tuple[str, str], pod_level: dict[str, str] | None = None) -> Pod:
    """Return a pod with containers of the given CPU and memory, requests and limits being equal."""
    containers = [
        {"name": f"c{at}", "image": "i", "resources": {kind: {"cpu": cpu, "memory": memory} for kind in KINDS}}
        for at, (cpu, memory) in enumerate(sizes)
    ]
    spec: dict[str, Any] = {"containers": containers}
    if pod_level is not None:
        spec["resources"] = {"limits": pod_level, "requests": pod_level}
    return codec.from_plain({"metadata": {"uid": "u1", "name": "p"}, "spec": spec}, Pod)


KINDS = ("requests", "limits")


class ExclusiveCpus(ResourceManager):
    """Manager that gives all containers CPUs of their own."""

    def has_exclusive_cpus(self, pod: Pod, container: Container | None = None) -> bool:
        return True


def new_managers(one: ResourceManager) -> ResourceManagers:
    return ResourceManagers(TopologyManager(AffinityStore(), ()), (one,), list)


class Recorder:
    """Runtime and control groups whose changes are recorded in one list."""

    def __init__(self, folder: Path, pod: Pod, *, exclusive: bool = False) -> None:
        self.steps: list[str] = []
        self.failure: RpcError | None = None
        self.usage = {"id-c0": 1, "id-c1": 1}
        recorder = self

        class Cgroups(CgroupManager):
            async def update(self, name: CgroupName, config: ResourceConfig) -> None:
                what = [
                    config.memory and f"memory={config.memory // MIB}",
                    config.cpu_quota and f"q={config.cpu_quota}",
                ]
                what += [config.cpu_shares and f"s={config.cpu_shares}"]
                recorder.steps.append(f"pod {' '.join(filter(None, what))}")
                await super().update(name, config)

        self.store = CheckpointStore(folder / "state")
        self.actuated = ActuatedState(self.store)
        self.pods = PodContainerManager(Cgroups(FakeCgroupV1(folder / "g")), child(ROOT, "kubepods"), PodCgroupPolicy())
        managers = new_managers(ExclusiveCpus() if exclusive else ResourceManager())
        memory, service = MachineMemory(1 << 30), cast(RuntimeService, self)
        self.resizer = PodResizer(service, self.pods, self.actuated, memory, managers)
        asyncio.run(self.pods.ensure_exists(pod, has_exclusive_cpus=exclusive))
        for one in pod.spec.containers or ():
            self.actuated.set_container(pod, one)
        asyncio.run(self.actuated.wait_durable())

    async def update_pod_sandbox_resources(self, request: object) -> None:
        raise RpcError(UNIMPLEMENTED, "unknown method")

    async def update_container_resources(self, id: str, resources: LinuxContainerResources) -> None:
        if self.failure is not None:
            raise self.failure
        memory = resources.memory_limit_in_bytes // MIB
        self.steps.append(f"{id} memory={memory} q={resources.cpu_quota} s={resources.cpu_shares}")

    async def list_container_stats(self) -> tuple[st.ContainerStats, ...]:
        return tuple(
            st.ContainerStats(
                attributes=st.ContainerAttributes(id=id),
                memory=st.MemoryUsage(usage_bytes=st.UInt64Value(value=used)),
            )
            for id, used in self.usage.items()
        )

    def resize(self, pod: Pod) -> list[str]:
        self.steps.clear()
        running = {one.name: f"id-{one.name}" for one in pod.spec.containers or ()}
        asyncio.run(self.resizer.resize(pod, running, "s1"))
        return self.steps


def test_a_pod_with_cpus_of_its_own_has_no_quota_after_a_resize(tmp_path: Path) -> None:
    node = Recorder(tmp_path, pod_with(("1", "16Mi")), exclusive=True)
    assert node.resize(pod_with(("1", "32Mi"))) == ["pod memory=32", "id-c0 memory=32 q=-1 s=1024"]


def test_the_pod_grows_before_its_containers_and_shrinks_after_them(tmp_path: Path) -> None:
    node = Recorder(tmp_path, pod_with(("100m", "16Mi")))
    assert node.resize(pod_with(("200m", "32Mi"))) == [
        "pod memory=32",
        "id-c0 memory=32 q=10000 s=102",
        "pod q=20000",
        "pod s=204",
        "id-c0 memory=32 q=20000 s=204",
    ]
    assert node.resize(pod_with(("100m", "16Mi"))) == [
        "id-c0 memory=16 q=20000 s=204",
        "pod memory=16",
        "id-c0 memory=16 q=10000 s=102",
        "pod s=102",
        "pod q=10000",
    ]
    assert node.resize(pod_with(("100m", "16Mi"))) == []


def test_containers_shrink_before_others_grow(tmp_path: Path) -> None:
    node = Recorder(tmp_path, pod_with(("100m", "16Mi"), ("100m", "32Mi")))
    steps = node.resize(pod_with(("100m", "32Mi"), ("100m", "16Mi")))
    assert [one.split()[:2] for one in steps] == [["id-c1", "memory=16"], ["id-c0", "memory=32"]]


def test_pod_level_limits_change_the_pod_alone(tmp_path: Path) -> None:
    node = Recorder(tmp_path, pod_with(("100m", "16Mi"), pod_level={"cpu": "1", "memory": "64Mi"}))
    bigger = pod_with(("100m", "16Mi"), pod_level={"cpu": "2", "memory": "128Mi"})
    assert node.resize(bigger) == ["pod memory=128", "pod q=200000", "pod s=2048"]
    found = node.actuated.get("u1")
    assert found is not None
    assert found.pod_level == bigger.spec.resources


def test_limits_below_the_usage_are_refused_before_anything_changes(tmp_path: Path) -> None:
    node = Recorder(tmp_path, pod_with(("100m", "16Mi")))
    node.usage["id-c0"] = 12 * MIB
    with pytest.raises(PodResizeError) as caught:
        node.resize(pod_with(("100m", "8Mi")))
    assert str(caught.value) == (
        f'cannot decrease memory limits: attempting to set container "c0" memory limit ({8 * MIB}) '
        f"below current usage ({12 * MIB})"
    )
    assert node.steps == []


def test_a_refusal_of_the_runtime_is_tried_again(tmp_path: Path) -> None:
    node = Recorder(tmp_path, pod_with(("100m", "16Mi")))
    node.failure = RpcError(INTERNAL, "no")
    with pytest.raises(PodResizeError, match="rpc error: code = Internal desc = no"):
        node.resize(pod_with(("100m", "32Mi")))
    node.failure = None
    assert node.resize(pod_with(("100m", "32Mi"))) == ["id-c0 memory=32 q=10000 s=102"]


def test_given_resources_survive_a_restart(tmp_path: Path) -> None:
    node = Recorder(tmp_path, pod_with(("100m", "16Mi")))
    again = ActuatedState(node.store)
    again.restore()
    assert again.get("u1") == node.actuated.get("u1")
    assert node.resizer.is_resized(pod_with(("200m", "16Mi")), (pod_with(("200m", "16Mi")).spec.containers or ())[0])
    node.actuated.remove_pod("u1")
    assert node.actuated.get("u1") is None


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    node = Recorder(tmp_path, pod_with(("100m", "16Mi")))
    node.store.write(CHECKPOINT, (node.store.read(CHECKPOINT) or b"").replace(b"100m", b"200m"))
    with pytest.raises(CorruptCheckpoint) as caught:
        ActuatedState(node.store).restore()
    assert str(caught.value) == (
        "could not restore state from checkpoint: checkpoint is corrupted, please drain this node and delete pod "
        f'resource information checkpoint file "{tmp_path}/state/{CHECKPOINT}" before restarting Kubelet'
    )


def test_unchanged_resources_write_nothing(tmp_path: Path) -> None:
    node = Recorder(tmp_path, pod_with(("100m", "16Mi")))
    before = node.store.path(CHECKPOINT).stat().st_ino
    pod = pod_with(("100m", "16Mi"))
    node.actuated.set_container(pod, (pod.spec.containers or ())[0])
    asyncio.run(node.actuated.wait_durable())
    assert node.store.path(CHECKPOINT).stat().st_ino == before


def test_waiters_share_a_write_that_has_the_changes_of_all(tmp_path: Path) -> None:
    class CountingStore(CheckpointStore):
        writes = 0

        def write(self, name: str, content: bytes) -> None:
            self.writes += 1
            super().write(name, content)

    async def scenario() -> None:
        async def set_one(number: int) -> None:
            pod = pod_with((f"{100 + number}m", "16Mi"))
            pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=f"u{number}"))
            state.set_container(pod, (pod.spec.containers or ())[0])
            await state.wait_durable()

        await asyncio.gather(*map(set_one, range(20)))

    store = CountingStore(tmp_path)
    state = ActuatedState(store)
    asyncio.run(scenario())
    again = ActuatedState(store)
    again.restore()
    assert [again.get(f"u{one}") == state.get(f"u{one}") is not None for one in range(20)] == [True] * 20
    assert store.writes == 2, "the first alone, then all that came meanwhile"
