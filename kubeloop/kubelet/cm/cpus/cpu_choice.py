# SPDX-License-Identifier: Apache-2.0
"""Choice of CPUs by the options of the static policy, and the CPUs that are reserved. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kubeloop.kubelet.cm.cpus.cpu_distributor import DistributedRequest, take_distributed
from kubeloop.kubelet.cm.cpus.cpu_packer import NotEnoughCpus, take_packed
from kubeloop.kubelet.cm.cpus.cpu_topology import CpuTopology
from kubeloop.kubelet.cm.cpus.cpuset import EMPTY, CpuSet, format_cpuset
from kubeloop.kubelet.cm.cpus.static_options import StaticPolicyOptions


class InvalidCpuState(ValueError):
    """Raised for a state that does not fit the machine or the reservation; the message is upstream's."""


@dataclass(frozen=True, slots=True)
class CpuReservation:
    """CPUs that are not allocated to containers, and all CPUs of their cores."""

    cpus: CpuSet
    whole_cores: CpuSet


def reserve_cpus(topology: CpuTopology, options: StaticPolicyOptions, count: int, specific: CpuSet) -> CpuReservation:
    """Return the CPUs to reserve: specific ones, or those of the lowest cores. Raises `InvalidCpuState`."""
    try:
        found = specific or take_by_options(topology, options, topology.details.cpus, count)
    except NotEnoughCpus:
        found = EMPTY
    if len(found) != count:
        raise InvalidCpuState(
            f"[cpumanager] unable to reserve the required amount of CPUs (size of {format_cpuset(found)} "
            f"did not equal {count})"
        )
    cores = {topology.details[cpu].core for cpu in found}
    return CpuReservation(found, topology.details.cpus_in("core", *cores))


def take_by_options(topology: CpuTopology, options: StaticPolicyOptions, available: CpuSet, count: int) -> CpuSet:
    """Return a number of CPUs, packed or distributed. Raises `NotEnoughCpus`."""
    spreads = options.distributes_across_cores
    if options.distributes_across_numa:
        group = topology.cpus_per_core if options.full_pcpus_only else 1
        request = DistributedRequest(count, group, spreads, options.aligns_by_socket)
        return take_distributed(topology, available, request)
    return take_packed(topology, available, count, spreads_cores=spreads, by_uncore=options.prefers_uncore_cache)
