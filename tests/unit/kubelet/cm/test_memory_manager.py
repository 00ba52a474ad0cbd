# SPDX-License-Identifier: Apache-2.0
"""Memory manager: groups of NUMA nodes, reuse, restart, and settings that cannot be used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.quota.amounts import amounts_of
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.checkpoints.store import CheckpointStore, CorruptCheckpoint
from kubeloop.kubelet.cm.manager_metrics import ResourceManagerMetrics
from kubeloop.kubelet.cm.memory.machine_memory import huge_page_resource
from kubeloop.kubelet.cm.memory.manager import MemoryManager, MemoryManagerConfig
from kubeloop.kubelet.cm.memory.state import CHECKPOINT
from kubeloop.kubelet.cm.topology.hints import ResourceAllocationError, TopologyHint
from kubeloop.kubelet.cm.topology.machine import NumaNode
from kubeloop.kubelet.cm.topology.manager import AffinityStore, TopologyManager
from kubeloop.kubelet.cm.topology.policies import TopologyOptions, TopologyPolicy
from kubeloop.metrics import MetricRegistry
from tests.unit.kubelet.cm.test_cpu_manager import MemoryStore

MIB = 1 << 20
TWO_NODES = [NumaNode(id, memory=1024 * MIB, huge_pages={2 * MIB: 64}) for id in (0, 1)]
CONFIG = MemoryManagerConfig("Static", ((0, {"memory": "100Mi"}),), amounts_of({"memory": "100Mi", "cpu": "1"}))


def container(name: str, memory: str, pages: str = "", *, sidecar: bool = False) -> Container:
    texts = {"cpu": "1", "memory": memory} | ({"hugepages-2Mi": pages} if pages else {})
    sizes = {name: Quantity(text) for name, text in texts.items()}
    resources = ResourceRequirements(requests=sizes, limits=sizes)
    return Container(name=name, resources=resources, restart_policy="Always" if sidecar else None)


def pod(uid: str, *containers: Container, init: Sequence[Container] = ()) -> Pod:
    return Pod(metadata=ObjectMeta(uid=uid), spec=PodSpec(containers=containers, init_containers=tuple(init)))


class Node:
    """Memory manager of a machine, whose topology manager has a policy or none."""

    def __init__(
        self,
        folder: Path | None,
        nodes: list[NumaNode] = TWO_NODES,
        config: MemoryManagerConfig = CONFIG,
        policy: str = "",
        scope: str = "container",
    ) -> None:
        store = CheckpointStore(folder) if folder is not None else MemoryStore()
        affinities, self.registry = AffinityStore(), MetricRegistry()
        metrics = ResourceManagerMetrics(self.registry, lambda: 0.0)
        self.manager = MemoryManager(config, nodes, store, affinities, metrics)
        chosen = TopologyPolicy(policy, TopologyOptions(), nodes) if policy else None
        self.topology = TopologyManager(affinities, (self.manager,), chosen, scope, metrics=metrics)
        asyncio.run(self.manager.start())

    def admit(self, given: Pod) -> dict[str, str]:
        """Admit a pod; return the NUMA nodes of its containers."""
        asyncio.run(self.topology.admit(given))
        every = (*given.spec.init_containers, *(given.spec.containers or ()))
        return {one.name: asyncio.run(self.manager.run_options(given, one)).cpuset_mems for one in every}

    def rejection(self, given: Pod) -> tuple[str, str]:
        with pytest.raises(ResourceAllocationError) as caught:
            asyncio.run(self.topology.admit(given))
        self.manager.remove_pod(given.metadata.uid)
        return caught.value.reason, str(caught.value)


def free_of(folder: Path) -> dict[str, dict[str, int]]:
    """Return the free MiB of each node, as the checkpoint has them."""
    nodes = json.loads(json.loads((folder / CHECKPOINT).read_text())["data"])["machineState"]
    return {id: {name: one["free"] // MIB for name, one in node["memoryMap"].items()} for id, node in nodes.items()}


def test_memory_is_allocated_on_one_node_while_it_fits(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert free_of(tmp_path) == {"0": {"hugepages-2Mi": 128, "memory": 796}, "1": {"hugepages-2Mi": 128, "memory": 896}}
    assert node.admit(pod("u1", container("a", "500Mi", "100Mi"))) == {"a": "0"}
    assert node.admit(pod("u2", container("a", "300Mi"))) == {"a": "1"}
    assert free_of(tmp_path)["0"]["hugepages-2Mi"] == 28
    assert "kubelet_memory_manager_pinning_requests_total 2" in node.registry.render()


def test_large_containers_use_a_group_of_nodes_alone(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.admit(pod("u1", container("a", "1000Mi"))) == {"a": "0,1"}
    assert free_of(tmp_path)["0"]["memory"] + free_of(tmp_path)["1"]["memory"] == 692
    assert node.admit(pod("u2", container("a", "100Mi"))) == {"a": "0,1"}  # the group is used as a whole
    assert node.rejection(pod("u3", container("a", "600Mi"))) == (
        "UnexpectedAdmissionError",
        "Allocate failed due to [memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough "
        "memory is available, which is unexpected",
    )
    assert "kubelet_memory_manager_pinning_errors_total 1" in node.registry.render()
    node.manager.retain_pods(set())
    assert node.admit(pod("u3", container("a", "100Mi"))) == {"a": "0"}
    assert node.rejection(pod("u4", container("a", "1000Mi")))[0] == "UnexpectedAdmissionError"


def test_pods_of_other_classes_have_no_nodes(tmp_path: Path) -> None:
    node = Node(tmp_path)
    requests = ResourceRequirements(requests={"memory": Quantity("10Mi")})
    assert node.admit(pod("u", Container(name="a", resources=requests))) == {"a": ""}
    assert Node(tmp_path / "none", config=MemoryManagerConfig()).admit(pod("u", container("a", "1Mi"))) == {"a": ""}


def test_memory_of_init_containers_is_used_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    init = [container("s", "100Mi", sidecar=True), container("i", "400Mi")]
    assert set(node.admit(pod("u", container("a", "300Mi"), container("b", "200Mi"), init=init)).values()) == {"0"}
    assert free_of(tmp_path)["0"]["memory"] == 796 - 100 - 500
    node.manager.remove_pod("u")
    assert free_of(tmp_path)["0"]["memory"] == 796


def test_a_restarted_kubelet_keeps_the_memory(tmp_path: Path) -> None:
    given = pod("u", container("a", "1000Mi", "2Mi"))
    Node(tmp_path).admit(given)
    before = free_of(tmp_path)
    again = Node(tmp_path)
    assert again.admit(given) == {"a": "0,1"}
    assert free_of(tmp_path) == before
    expected = (TopologyHint(frozenset((0, 1)), True),)
    hints = again.manager.get_topology_hints(given, container("a", "1000Mi", "2Mi"))
    assert hints == {"memory": expected, "hugepages-2Mi": expected}
    again.manager.retain_pods(set())
    assert free_of(tmp_path)["0"] == {"hugepages-2Mi": 128, "memory": 796}


def test_states_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    Node(tmp_path).admit(pod("u", container("a", "10Mi")))
    with pytest.raises(ValueError, match="the expected machine state is different from the real one"):
        Node(tmp_path, [replace(one, memory=2 << 30) for one in TWO_NODES])
    with pytest.raises(ValueError, match="memory assignment uses the NUMA that does not exist"):
        Node(tmp_path, [NumaNode(1, memory=1 << 30)], replace(CONFIG, reserved_memory=((1, {"memory": "100Mi"}),)))
    with pytest.raises(
        CorruptCheckpoint, match='configured policy "None" differs from state checkpoint policy "Static"'
    ):
        Node(tmp_path, config=MemoryManagerConfig())
    (tmp_path / CHECKPOINT).write_text('{"data":"{}","dataChecksum":1}')
    with pytest.raises(CorruptCheckpoint, match="checkpoint is corrupted"):
        Node(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (MemoryManagerConfig("Static"), "[memorymanager] you should specify the system reserved memory"),
        (
            replace(CONFIG, reserved_memory=((7, {"memory": "100Mi"}),)),
            "the reserved memory configuration references a NUMA node 7 that does not exist on this machine",
        ),
        (
            replace(CONFIG, reserved_memory=((0, {"memory": "50Mi"}), (1, {"memory": "20Mi"}))),
            'the total amount "70Mi" of type "memory" is not equal to the value "100Mi" determined by Node Allocatable '
            "feature",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused(tmp_path: Path, config: MemoryManagerConfig, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Node(tmp_path, config=config)
    assert str(caught.value) == message


def test_the_topology_manager_decides_about_groups(tmp_path: Path) -> None:
    node = Node(tmp_path, policy="single-numa-node")
    assert node.admit(pod("u", container("a", "700Mi"))) == {"a": "0"}
    assert node.admit(pod("v", container("a", "700Mi"))) == {"a": "1"}
    assert node.rejection(pod("w", container("a", "700Mi")))[0] == "UnexpectedAdmissionError"
    whole = Node(tmp_path / "pod", policy="single-numa-node", scope="pod")
    assert whole.rejection(pod("u", container("a", "600Mi"), container("b", "600Mi")))[0] == "TopologyAffinityError"


def test_sizes_of_huge_pages_have_resources() -> None:
    assert [huge_page_resource(size) for size in (2 * MIB, 1 << 30, 64 << 10)] == [
        *("hugepages-2Mi", "hugepages-1Gi", "hugepages-64Ki")
    ]


@given(st.lists(st.tuples(st.integers(1, 900), st.booleans()), max_size=10))
def test_no_memory_is_lost(steps: list[tuple[int, bool]]) -> None:
    """After all pods are gone the machine is as it was; nodes never have less than nothing."""
    node = Node(None)
    held: list[str] = []
    for at, (size, is_removed) in enumerate(steps):
        if is_removed and held:
            node.manager.remove_pod(held.pop(0))
            continue
        try:
            node.admit(pod(f"u{at}", container("a", f"{size}Mi"), init=[container("i", f"{size // 2 + 1}Mi")]))
            held.append(f"u{at}")
        except ResourceAllocationError:
            node.manager.remove_pod(f"u{at}")
    node.manager.retain_pods(set())
    hints = node.manager.get_topology_hints(pod("x", container("a", "796Mi")), container("a", "796Mi"))
    assert [one.affinity for one in hints["memory"] or ()] == [frozenset(one) for one in ((0,), (1,), (0, 1))]
