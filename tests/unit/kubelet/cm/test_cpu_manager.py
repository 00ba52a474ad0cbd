# SPDX-License-Identifier: Apache-2.0
"""CPU manager: allocation, reuse, restart, the shared pool, and settings that cannot be used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.checkpoints.checksum import string_checksum
from kubeloop.kubelet.checkpoints.store import CheckpointStore, CorruptCheckpoint
from kubeloop.kubelet.cm.cpus.cpu_topology import new_cpu_topology
from kubeloop.kubelet.cm.cpus.cpuset import parse_cpuset
from kubeloop.kubelet.cm.cpus.manager import CpuManager, CpuManagerConfig, CpuManagerParts
from kubeloop.kubelet.cm.cpus.state import CHECKPOINT, CpuManagerState, legacy_checksum
from kubeloop.kubelet.cm.manager_metrics import ResourceManagerMetrics
from kubeloop.kubelet.cm.node_allocatable import NodeAllocatableConfig, with_reserved_cpus
from kubeloop.kubelet.cm.topology.hints import ResourceAllocationError, TopologyHint
from kubeloop.kubelet.cm.topology.machine import NumaNode
from kubeloop.kubelet.cm.topology.manager import AffinityStore, TopologyManager
from kubeloop.kubelet.cm.topology.policies import TopologyOptions, TopologyPolicy
from kubeloop.kubelet.cri.messages.resources import LinuxContainerResources
from kubeloop.metrics import MetricRegistry
from tests.unit.kubelet.cm.machines import DUAL_SOCKET_HT, MULTI_NUMA_HT, SINGLE_SOCKET_HT, TWO_CPUS

STATIC = CpuManagerConfig("static", reserved=parse_quantity("500m"))
ALPHA = Features(DEFAULT_FEATURES.enabled | {"CPUManagerPolicyAlphaOptions"})


def container(name: str, cpu: str = "", limit: str = "", *, sidecar: bool = False) -> Container:
    if not cpu:
        return Container(name=name)
    requests, limits = ({"cpu": Quantity(one), "memory": Quantity("1Mi")} for one in (cpu, limit or cpu))
    resources = ResourceRequirements(requests=requests, limits=limits)
    return Container(name=name, resources=resources, restart_policy="Always" if sidecar else None)


def pod(uid: str, *containers: Container, init: Sequence[Container] = ()) -> Pod:
    return Pod(metadata=ObjectMeta(uid=uid), spec=PodSpec(containers=containers, init_containers=tuple(init)))


class MemoryStore(CheckpointStore):
    """Checkpoints without files."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.contents: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.contents.get(name)

    def write(self, name: str, content: bytes) -> None:
        self.contents[name] = content


class FakeContainers:
    """Running containers, with the cpusets that they were given."""

    def __init__(self) -> None:
        self.running: dict[tuple[str, str], str] = {}
        self.updates: list[tuple[str, str]] = []

    async def list_running(self) -> Mapping[tuple[str, str], str]:
        return self.running

    async def update_container_resources(self, id: str, resources: LinuxContainerResources) -> None:
        self.updates.append((id, resources.cpuset_cpus))


class Node:
    """CPU manager of a machine, whose topology manager has a policy or none."""

    def __init__(
        self,
        folder: Path | None,
        nodes: list[NumaNode],
        config: CpuManagerConfig = STATIC,
        policy: str = "",
        scope: str = "",
    ) -> None:
        self.store = CheckpointStore(folder) if folder is not None else MemoryStore()
        self.containers, self.pods = FakeContainers(), list[Pod]()
        self.affinities, self.registry = AffinityStore(), MetricRegistry()
        metrics = ResourceManagerMetrics(self.registry, lambda: 0.0)
        parts = CpuManagerParts(self.store, self.affinities, self.containers, lambda: self.pods, metrics)
        self.manager = CpuManager(config, tuple(nodes), parts)
        chosen = TopologyPolicy(policy, TopologyOptions(), nodes) if policy else None
        self.topology = TopologyManager(
            *(self.affinities, (self.manager,), chosen, scope or "container"), metrics=metrics
        )
        asyncio.run(self.manager.start())

    def admit(self, given: Pod) -> dict[str, str]:
        """Admit a pod; return the CPUs of its containers."""
        asyncio.run(self.topology.admit(given))
        self.pods.append(given)
        return self.cpus(given)

    def cpus(self, given: Pod) -> dict[str, str]:
        every = (*given.spec.init_containers, *(given.spec.containers or ()))
        return {one.name: asyncio.run(self.manager.run_options(given, one)).cpuset_cpus for one in every}

    def rejection(self, given: Pod) -> tuple[str, str]:
        with pytest.raises(ResourceAllocationError) as caught:
            asyncio.run(self.topology.admit(given))
        self.manager.remove_pod(given.metadata.uid)
        return caught.value.reason, str(caught.value)


def test_guaranteed_containers_have_cpus_of_their_own(tmp_path: Path) -> None:
    node = Node(tmp_path, TWO_CPUS)
    own, other = pod("u1", container("a", "1")), pod("u2", container("b"))
    assert node.admit(other) == {"b": "0-1"}
    assert node.admit(own) == {"a": "1"}
    assert node.cpus(other) == {"b": "0"}
    assert node.manager.has_exclusive_cpus(own)
    assert not node.manager.has_exclusive_cpus(other)
    options = asyncio.run(node.manager.run_options(own, container("a")))
    assert options.has_exclusive_cpus
    assert node.rejection(pod("u3", container("c", "1"))) == (
        "UnexpectedAdmissionError",
        "Allocate failed due to not enough cpus available to satisfy request: requested=1, available=0, "
        "which is unexpected",
    )


@pytest.mark.parametrize(
    "given",
    [
        pod("u", container("a", "500m")),
        pod("u", container("a", "1", "2")),
        pod("u", container("a", "1"), container("b")),
    ],
)
def test_other_containers_share_the_pool(tmp_path: Path, given: Pod) -> None:
    assert set(Node(tmp_path, TWO_CPUS).admit(given).values()) == {"0-1"}


def test_containers_of_pods_with_resources_of_their_own_share_the_pool(tmp_path: Path) -> None:
    whole = container("whole", "1").resources
    spec = PodSpec(containers=(container("a", "1"),), resources=whole)
    assert Node(tmp_path, TWO_CPUS).admit(Pod(metadata=ObjectMeta(uid="u"), spec=spec)) == {"a": "0-1"}


def test_cpus_of_init_containers_are_used_again(tmp_path: Path) -> None:
    node = Node(tmp_path, SINGLE_SOCKET_HT)
    found = node.admit(pod("u", container("a", "2"), container("b", "1"), init=[container("i", "2")]))
    assert found == {"i": "1,5", "a": "1,5", "b": "4"}


def test_cpus_of_sidecars_are_not_used_again(tmp_path: Path) -> None:
    node = Node(tmp_path, SINGLE_SOCKET_HT)
    found = node.admit(pod("u", container("a", "2"), init=[container("i", "2", sidecar=True)]))
    assert found == {"i": "1,5", "a": "2,6"}


def test_a_restarted_kubelet_keeps_the_cpus(tmp_path: Path) -> None:
    given = pod("u", container("a", "2"))
    before = Node(tmp_path, SINGLE_SOCKET_HT).admit(given)
    again = Node(tmp_path, SINGLE_SOCKET_HT)
    assert again.admit(given) == before == {"a": "1,5"}
    again.manager.retain_pods({"other"})
    assert again.admit(pod("v", container("a", "2"))) == {"a": "1,5"}


def test_released_cpus_return_to_the_pool(tmp_path: Path) -> None:
    node = Node(tmp_path, TWO_CPUS)
    node.admit(pod("u", container("a", "1")))
    node.manager.remove_pod("u")
    assert node.cpus(pod("v", container("b"))) == {"b": "0-1"}


def test_running_containers_get_the_present_pool(tmp_path: Path) -> None:
    node = Node(tmp_path, TWO_CPUS)
    shared, own = pod("u1", container("a")), pod("u2", container("b", "1"))
    node.admit(shared)
    node.containers.running = {("u1", "a"): "id1"}
    asyncio.run(node.manager.reconcile())
    node.admit(own)
    node.containers.running |= {("u2", "b"): "id2", ("gone", "x"): "id3"}
    asyncio.run(node.manager.reconcile())
    asyncio.run(node.manager.reconcile())
    assert node.containers.updates == [("id1", "0-1"), ("id1", "0"), ("id2", "1")]


def test_the_policy_none_sets_no_cpus_but_writes_its_state(tmp_path: Path) -> None:
    node = Node(tmp_path, TWO_CPUS, CpuManagerConfig())
    assert node.admit(pod("u", container("a", "1"))) == {"a": ""}
    assert node.manager.tasks() == ()
    assert json.loads((tmp_path / CHECKPOINT).read_text()) == {
        "policyName": "none",
        "defaultCpuSet": "",
        "checksum": 1353318690,
        "data": '{"policyName":"none","defaultCpuSet":""}',
        "dataChecksum": string_checksum('{"policyName":"none","defaultCpuSet":""}'),
    }


def test_the_state_of_another_policy_is_refused(tmp_path: Path) -> None:
    Node(tmp_path, TWO_CPUS)
    with pytest.raises(CorruptCheckpoint) as caught:
        Node(tmp_path, TWO_CPUS, CpuManagerConfig())
    assert str(caught.value) == (
        'could not restore state from checkpoint: configured policy "none" differs from state checkpoint policy '
        f'"static", please drain this node and delete the CPU manager checkpoint file "{tmp_path}/{CHECKPOINT}" '
        "before restarting Kubelet"
    )


def test_states_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    state = CpuManagerState(CheckpointStore(tmp_path), "static")
    state.set_default(parse_cpuset("0"))
    with pytest.raises(ValueError, match='current set of available CPUs "0-1" doesn\'t match with CPUs in state "0"'):
        Node(tmp_path, TWO_CPUS)
    state.set_default(parse_cpuset("1"))
    with pytest.raises(ValueError, match='not all reserved cpus: "0" are present in defaultCpuSet: "1"'):
        Node(tmp_path, TWO_CPUS)
    strict = replace(STATIC, options={"strict-cpu-reservation": "true"})
    state.set_default(parse_cpuset("0-1"))
    with pytest.raises(ValueError, match='some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-1"'):
        Node(tmp_path, TWO_CPUS, strict)
    state.assign("u", "c", parse_cpuset("0-1"))
    with pytest.raises(ValueError, match="default cpuset cannot be empty"):
        Node(tmp_path, TWO_CPUS)
    state.set_default(parse_cpuset("0"))
    with pytest.raises(ValueError, match='pod: u, container: c cpuset: "0-1" overlaps with default cpuset "0"'):
        Node(tmp_path, TWO_CPUS)


@pytest.mark.parametrize(
    "content",
    [
        '{"policyName":"static","defaultCpuSet":"7-9","entries":{"pod":{"container1":"4-6","container2":"1-3"}},'
        '"checksum":1942532442}',
        r'{"data":"{\"policyName\":\"static\",\"defaultCpuSet\":\"7-9\",\"entries\":{\"pod\":{\"container1\":\"4-6\",'
        r'\"container2\":\"1-3\"}}}","dataChecksum":DATA}',
    ],
)
def test_states_of_other_kubelets_are_read(tmp_path: Path, content: str) -> None:
    if "DATA" in content:
        text = json.loads(content.replace("DATA", "0"))["data"]
        content = content.replace("DATA", str(string_checksum(text)))
    (tmp_path / CHECKPOINT).write_text(content)
    state = CpuManagerState(CheckpointStore(tmp_path), "static")
    state.restore()
    assert state.default_cpus == {7, 8, 9}
    assert state.assignments == {"pod": {"container1": frozenset((4, 5, 6)), "container2": frozenset((1, 2, 3))}}


@pytest.mark.parametrize(
    "content",
    ["{", '{"policyName":"static","defaultCpuSet":"0","checksum":1}', '{"data":"{}","dataChecksum":1}'],
)
def test_corrupt_states_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / CHECKPOINT).write_text(content)
    with pytest.raises(CorruptCheckpoint):
        CpuManagerState(CheckpointStore(tmp_path), "static").restore()


def test_the_checksum_is_that_of_older_kubelets() -> None:
    entries = {"pod": {"container1": "4-6", "container2": "1-3"}}
    assert legacy_checksum("static", "7-9", entries, "V3", has_pods=True) == 1942532442


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (replace(STATIC, reserved=None), "unable to determine reserved CPU resources for static policy"),
        (replace(STATIC, options={"x": "true"}), 'unknown CPU Manager Policy option: "x"'),
        (
            replace(STATIC, options={"align-by-socket": "true"}),
            'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided',
        ),
        (
            replace(STATIC, options={"distribute-cpus-across-numa": "true"}, features=Features(frozenset())),
            'CPU Manager Policy Beta-level Options not enabled, but option "distribute-cpus-across-numa" provided',
        ),
        (
            replace(STATIC, options={"full-pcpus-only": "yes"}),
            'bad value for option "full-pcpus-only": strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        (
            replace(
                STATIC, options=dict.fromkeys(("full-pcpus-only", "distribute-cpus-across-cores"), "1"), features=ALPHA
            ),
            "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used at the same time",
        ),
        (
            replace(STATIC, options={"align-by-socket": "true"}, features=ALPHA, topology_policy="single-numa-node"),
            "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option",
        ),
        (replace(STATIC, reserved_cpus=parse_cpuset("0-1")), "unable to reserve the required amount of CPUs"),
        (replace(STATIC, reserved=parse_quantity("3")), "unable to reserve the required amount of CPUs"),
        (replace(STATIC, reserved_cpus=parse_cpuset("7")), "reserved-cpus: 7 is not a subset of online-cpus: 0-1"),
        (CpuManagerConfig(options={"a": "b"}), "None policy: received unsupported options=map[a:b]"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(tmp_path: Path, config: CpuManagerConfig, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Node(tmp_path, TWO_CPUS, config)
    assert message in str(caught.value)


def test_only_whole_cores_are_allocated_where_that_is_asked_for(tmp_path: Path) -> None:
    node = Node(tmp_path, SINGLE_SOCKET_HT, replace(STATIC, options={"full-pcpus-only": "true"}))
    assert node.rejection(pod("u", container("a", "3"))) == (
        "SMTAlignmentError",
        "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
    )
    assert node.rejection(pod("u", container("a", "8"))) == (
        "SMTAlignmentError",
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 6, requested CPUs = 8, "
        "CPUs per core = 2",
    )
    assert node.admit(pod("u", container("a", "6"))) == {"a": "1-3,5-7"}
    text = node.registry.render()
    assert 'kubelet_container_aligned_compute_resources_count{boundary="physical_cpu",scope="container"} 1' in text
    assert "kubelet_cpu_manager_pinning_requests_total 3" in text
    assert "kubelet_cpu_manager_pinning_errors_total 2" in text
    assert "kubelet_cpu_manager_exclusive_cpu_allocation_count 6" in text
    assert "kubelet_cpu_manager_shared_pool_size_millicores 1000" in text


def test_specific_cpus_are_reserved(tmp_path: Path) -> None:
    config = replace(STATIC, reserved_cpus=parse_cpuset("1"), reserved=parse_quantity("1"))
    assert Node(tmp_path, TWO_CPUS, config).admit(pod("u", container("a", "1"))) == {"a": "0"}


def test_strictly_reserved_cpus_are_not_in_the_pool(tmp_path: Path) -> None:
    config = replace(STATIC, options={"strict-cpu-reservation": "true"})
    assert Node(tmp_path, TWO_CPUS, config).admit(pod("u", container("a"))) == {"a": "1"}


def test_reserved_cpus_replace_reserved_amounts() -> None:
    config = NodeAllocatableConfig({"cpu": "2", "memory": "1Gi"}, {"cpu": "1", "memory": "2Gi"})
    found = with_reserved_cpus(config, 4)
    assert found.system_reserved == {"cpu": "4", "memory": "1Gi"}
    assert found.kube_reserved == {"memory": "2Gi"}
    assert with_reserved_cpus(config, 0) is config


def test_containers_are_aligned_on_a_numa_node(tmp_path: Path) -> None:
    node = Node(tmp_path, DUAL_SOCKET_HT, policy="single-numa-node")
    assert node.admit(pod("u", container("a", "6"))) == {"a": "1,3,5,7,9,11"}
    assert node.rejection(pod("v", container("a", "6"))) == (
        "TopologyAffinityError",
        "Resources cannot be allocated with Topology locality",
    )
    text = node.registry.render()
    assert "kubelet_topology_manager_admission_requests_total 2" in text
    assert "kubelet_topology_manager_admission_errors_total 1" in text


def test_the_scope_decides_if_a_pod_is_aligned_as_a_whole(tmp_path: Path) -> None:
    given = pod("u", container("a", "4"), container("b", "4"))
    apart = Node(tmp_path / "1", DUAL_SOCKET_HT, policy="single-numa-node").admit(given)
    assert apart == {"a": "2,4,8,10", "b": "1,3,7,9"}
    together = Node(tmp_path / "2", DUAL_SOCKET_HT, policy="single-numa-node", scope="pod")
    assert together.rejection(given)[0] == "TopologyAffinityError"
    small = pod("v", container("a", "2"), container("b", "2"))
    cpus = parse_cpuset(",".join(together.admit(small).values()))
    assert len({cpu % 2 for cpu in cpus}) == 1


def test_hints_of_held_cpus_are_the_same_again(tmp_path: Path) -> None:
    given = pod("u", container("a", "2"))
    Node(tmp_path, DUAL_SOCKET_HT).admit(given)
    manager = Node(tmp_path, DUAL_SOCKET_HT).manager
    expected = {"cpu": (TopologyHint(frozenset((0,)), True), TopologyHint(frozenset((0, 1)), False))}
    assert manager.get_topology_hints(given, container("a", "2")) == expected
    assert manager.get_pod_topology_hints(given) == expected
    assert manager.get_topology_hints(pod("u", container("a", "4")), container("a", "4")) == {"cpu": ()}
    assert manager.get_pod_topology_hints(pod("u", container("a", "4"))) == {"cpu": ()}


def test_sockets_are_aligned_where_that_is_asked_for(tmp_path: Path) -> None:
    config = replace(STATIC, options={"align-by-socket": "true"}, features=ALPHA)
    manager = Node(tmp_path, MULTI_NUMA_HT, config).manager
    hints = manager.get_topology_hints(pod("u", container("a", "20")), container("a", "20"))["cpu"] or ()
    preferred = {one.affinity for one in hints if one.preferred}
    assert frozenset((0, 1)) in preferred
    assert frozenset((1, 2)) not in preferred


@given(st.lists(st.tuples(st.integers(1, 8), st.booleans()), max_size=12), st.sampled_from(["", "restricted"]))
def test_cpus_are_never_shared_and_none_is_lost(steps: list[tuple[int, bool]], policy: str) -> None:
    node = Node(None, DUAL_SOCKET_HT, policy=policy)
    held: dict[str, frozenset[int]] = {}
    for at, (count, is_removed) in enumerate(steps):
        if is_removed and held:
            uid = next(iter(held))
            del held[uid]
            node.manager.remove_pod(uid)
            continue
        given = pod(f"u{at}", container("a", str(count)))
        try:
            held[f"u{at}"] = parse_cpuset(node.admit(given)["a"])
        except ResourceAllocationError:
            node.manager.remove_pod(f"u{at}")
    pool = parse_cpuset(node.cpus(pod("shared", container("s")))["s"])
    assert sum(map(len, held.values())) + len(pool) == 12
    assert pool.union(*held.values()) == new_cpu_topology(DUAL_SOCKET_HT).details.cpus
    assert 0 in pool
