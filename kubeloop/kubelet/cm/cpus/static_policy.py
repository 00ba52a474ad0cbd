# SPDX-License-Identifier: Apache-2.0
"""Static CPU manager policy: exclusive CPUs for containers of Guaranteed pods that request whole CPUs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.kubelet.cm.cpus.cpu_choice import CpuReservation, InvalidCpuState, take_by_options
from kubeloop.kubelet.cm.cpus.cpu_packer import NotEnoughCpus
from kubeloop.kubelet.cm.cpus.cpu_requests import CPU, exclusive_cpus_of, pod_exclusive_cpus
from kubeloop.kubelet.cm.cpus.cpu_topology import CpuTopology
from kubeloop.kubelet.cm.cpus.cpuset import EMPTY, CpuSet, format_cpuset
from kubeloop.kubelet.cm.cpus.state import CpuManagerState
from kubeloop.kubelet.cm.cpus.static_options import StaticPolicyOptions
from kubeloop.kubelet.cm.topology.hints import (
    ResourceAllocationError,
    ResourceHints,
    TopologyAffinity,
    TopologyHint,
    unexpected_admission_error,
)
from kubeloop.kubelet.cm.topology.manager import containers_of
from kubeloop.kubelet.sync.containers import is_sidecar

SMT_ALIGNMENT_ERROR = "SMTAlignmentError"


class StaticCpuPolicy:
    """Allocates CPUs by the topology and the affinity of containers."""

    def __init__(
        self,
        topology: CpuTopology,
        options: StaticPolicyOptions,
        reservation: CpuReservation,
        affinity: TopologyAffinity,
        state: CpuManagerState,
    ) -> None:
        self._topology = topology
        self._options = options
        self._reservation = reservation
        self._affinity = affinity
        self._state = state
        self._reusable: tuple[str, CpuSet] = ("", EMPTY)  # pod that is admitted, CPUs of its init containers

    def start(self) -> None:
        """Fill an empty state, or check it. Raises `InvalidCpuState`."""
        every = self._topology.details.cpus
        if self._options.strict_cpu_reservation:
            every -= self._reservation.cpus
        if not self._state.default_cpus and not self._state.assignments:
            self._state.set_default(every)
        elif problem := self._state_problem(every):
            raise InvalidCpuState(problem)

    def available_cpus(self) -> CpuSet:
        """Return the CPUs that can be allocated now."""
        return self._state.default_cpus - self._reservation.cpus

    def allocatable_cpus(self) -> CpuSet:
        """Return the CPUs that can be allocated, in use or not."""
        return self._topology.details.cpus - self._reservation.cpus

    def allocate(self, pod: Pod, container: Container) -> bool:
        """Allocate CPUs to a container; returns False if it has none of its own. Raises `ResourceAllocationError`."""
        count, uid = exclusive_cpus_of(pod, container), pod.metadata.uid
        if not count:
            return False
        cpus = self._state.get(uid, container.name)
        if cpus is None:
            self._check_smt_alignment(count)
            affinity = self._affinity.get_affinity(uid, container.name).affinity
            try:
                cpus = self._choose(count, affinity, self._reusable_of(uid))
            except NotEnoughCpus as error:
                raise unexpected_admission_error(error) from None
            self._state.assign(uid, container.name, cpus)
        self._update_reusable(pod, container, cpus)
        return True

    def get_topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        """Return the hints of a container's CPUs; empty if it has none of its own."""
        count = exclusive_cpus_of(pod, container)
        if not count:
            return {}
        held = self._state.get(pod.metadata.uid, container.name)
        if held is not None:
            return {CPU: self._hints(held, EMPTY, count) if len(held) == count else ()}
        return {CPU: self._hints(self.available_cpus(), self._reusable_of(pod.metadata.uid), count)}

    def get_pod_topology_hints(self, pod: Pod) -> ResourceHints:
        """Return the hints of the CPUs of a whole pod; empty if it has none of its own."""
        count, uid = pod_exclusive_cpus(pod), pod.metadata.uid
        if not count:
            return {}
        held = EMPTY
        for one in containers_of(pod):
            cpus = self._state.get(uid, one.name)
            if cpus is not None and len(cpus) != exclusive_cpus_of(pod, one):
                return {CPU: ()}
            held |= cpus or EMPTY
        if len(held) == count:
            return {CPU: self._hints(held, EMPTY, count)}
        return {CPU: self._hints(self.available_cpus(), self._reusable_of(uid) | held, count)}

    def _hints(self, available: CpuSet, reusable: CpuSet, count: int) -> tuple[TopologyHint, ...]:
        """Return the sets of NUMA nodes that have enough CPUs; the smallest possible ones are preferred."""
        details = self._topology.details
        nodes = sorted(details.ids("numa"))
        needed = frozenset(details[cpu].numa for cpu in reusable)
        smallest, found = len(nodes), list[frozenset[int]]()
        for mask in _subsets(nodes):
            if len(details.cpus_in("numa", *mask)) >= count:
                smallest = min(smallest, len(mask))
            matching = sum(details[cpu].numa in mask for cpu in available)
            if needed <= mask and len(reusable) + matching >= count:
                found.append(mask)
        return tuple(TopologyHint(mask, self._is_preferred(mask, smallest)) for mask in found)

    def _is_preferred(self, mask: frozenset[int], smallest: int) -> bool:
        if len(mask) == smallest:
            return True
        per_socket = self._topology.numa_count // self._topology.socket_count
        if not self._options.aligns_by_socket or not per_socket:
            return False
        return len(self._topology.details.ids_in("socket", "numa", mask)) == -(-smallest // per_socket)

    def _choose(self, count: int, affinity: frozenset[int] | None, reusable: CpuSet) -> CpuSet:
        allocatable = self.available_cpus() | reusable
        aligned = EMPTY
        if affinity is not None:
            near = self._near_cpus(affinity) & allocatable
            aligned = self.take(near, min(count, len(near)))
        return aligned | self.take(allocatable - aligned, count - len(aligned))

    def _near_cpus(self, affinity: frozenset[int]) -> CpuSet:
        details = self._topology.details
        if self._options.aligns_by_socket:
            return details.cpus_in("socket", *details.ids_in("socket", "numa", affinity))
        return details.cpus_in("numa", *affinity)

    def take(self, available: CpuSet, count: int) -> CpuSet:
        """Return a number of CPUs by the options. Raises `NotEnoughCpus`."""
        return take_by_options(self._topology, self._options, available, count)

    def _check_smt_alignment(self, count: int) -> None:
        if not self._options.full_pcpus_only:
            return
        per_core = self._topology.cpus_per_core
        if count % per_core:
            message = f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {per_core}"
            raise ResourceAllocationError(SMT_ALIGNMENT_ERROR, message)
        free = len(self._state.default_cpus - self._reservation.whole_cores)
        if count > free:
            raise ResourceAllocationError(
                SMT_ALIGNMENT_ERROR,
                f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {free}, "
                f"requested CPUs = {count}, CPUs per core = {per_core}",
            )

    def _reusable_of(self, uid: str) -> CpuSet:
        return self._reusable[1] if self._reusable[0] == uid else EMPTY

    def _update_reusable(self, pod: Pod, container: Container, cpus: CpuSet) -> None:
        """Let later containers use the CPUs of an init container, which has ended when they start."""
        before = self._reusable_of(pod.metadata.uid)
        is_init = any(one.name == container.name for one in pod.spec.init_containers)
        after = before | cpus if is_init and not is_sidecar(container) else before - cpus
        self._reusable = (pod.metadata.uid, after)

    def _state_problem(self, every: CpuSet) -> str:
        """Return why a restored state cannot be used; empty if it can."""
        default, reserved = self._state.default_cpus, self._reservation.cpus
        text = format_cpuset(default)
        if not default:
            return "default cpuset cannot be empty"
        if self._options.strict_cpu_reservation and reserved & default:
            common = format_cpuset(reserved & default)
            return f'some of strictly reserved cpus: "{common}" are present in defaultCpuSet: "{text}"'
        if not self._options.strict_cpu_reservation and not reserved <= default:
            return f'not all reserved cpus: "{format_cpuset(reserved)}" are present in defaultCpuSet: "{text}"'
        for uid, pod in self._state.assignments.items():
            for name, cpus in pod.items():
                if cpus & default:
                    own = format_cpuset(cpus)
                    return f'pod: {uid}, container: {name} cpuset: "{own}" overlaps with default cpuset "{text}"'
        known = default | self._state.assigned_cpus()
        if known != every:
            now, then = format_cpuset(every), format_cpuset(known)
            return f'current set of available CPUs "{now}" doesn\'t match with CPUs in state "{then}"'
        return ""


def _subsets(nodes: list[int]) -> Iterable[frozenset[int]]:
    return (frozenset(one) for size in range(1, len(nodes) + 1) for one in combinations(nodes, size))
