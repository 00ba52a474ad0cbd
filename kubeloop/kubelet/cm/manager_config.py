# SPDX-License-Identifier: Apache-2.0
"""Settings of the resource managers, from a KubeletConfiguration. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.api.quota.amounts import Amounts
from kubeloop.kubelet.cm.cpus.cpuset import parse_cpuset
from kubeloop.kubelet.cm.cpus.manager import CpuManagerConfig
from kubeloop.kubelet.cm.memory.manager import MemoryManagerConfig
from kubeloop.kubelet.cm.topology.machine import NumaNode
from kubeloop.kubelet.cm.topology.policies import NONE, TopologyPolicy, parse_topology_options
from kubeloop.kubelet.config.decode import features_of
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration


def cpu_manager_config(settings: KubeletConfiguration, reserved: Amounts) -> CpuManagerConfig:
    """Return the settings of the CPU manager; `reserved` are all reservations of the node."""
    return CpuManagerConfig(
        settings.cpu_manager_policy,
        settings.cpu_manager_policy_options,
        settings.cpu_manager_reconcile_period,
        reserved.get("cpu"),
        parse_cpuset(settings.reserved_system_cpus),
        settings.topology_manager_policy,
        features_of(settings.feature_gates),
    )


def memory_manager_config(settings: KubeletConfiguration, reserved: Amounts) -> MemoryManagerConfig:
    """Return the settings of the memory manager; `reserved` are all reservations of the node."""
    limits = tuple((one.numa_node, one.limits) for one in settings.reserved_memory)
    return MemoryManagerConfig(settings.memory_manager_policy, limits, reserved)


def new_topology_policy(settings: KubeletConfiguration, nodes: Sequence[NumaNode]) -> TopologyPolicy | None:
    """Return the policy of the topology manager; None for `none`. Raises `ValueError`."""
    if settings.topology_manager_policy == NONE:
        return None
    options = parse_topology_options(settings.topology_manager_policy_options)
    return TopologyPolicy(settings.topology_manager_policy, options, nodes)
