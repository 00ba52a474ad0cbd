# SPDX-License-Identifier: Apache-2.0
"""Options of the static CPU manager policy (`cpuManagerPolicyOptions`). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubeloop.api.features.gates import Features
from kubeloop.kubelet.cm.cpus.cpu_topology import CpuTopology
from kubeloop.kubelet.cm.policy_options import InvalidPolicyOption, parse_bool_option

FULL_PCPUS, ACROSS_NUMA, BY_SOCKET = "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket"
ACROSS_CORES, STRICT = "distribute-cpus-across-cores", "strict-cpu-reservation"
BY_UNCORE = "prefer-align-cpus-by-uncorecache"
_ALPHA, _BETA = frozenset((BY_SOCKET, ACROSS_CORES)), frozenset((ACROSS_NUMA,))
_GATES = (("Alpha", "CPUManagerPolicyAlphaOptions", _ALPHA), ("Beta", "CPUManagerPolicyBetaOptions", _BETA))
_STABLE = frozenset((FULL_PCPUS, STRICT, BY_UNCORE))
_EXCLUSIVE = (
    *((FULL_PCPUS, ACROSS_CORES), (ACROSS_NUMA, ACROSS_CORES)),
    *((BY_UNCORE, ACROSS_CORES), (BY_UNCORE, ACROSS_NUMA)),
)


@dataclass(frozen=True, slots=True)
class StaticPolicyOptions:
    """Options that are on."""

    full_pcpus_only: bool = False
    distributes_across_numa: bool = False
    aligns_by_socket: bool = False
    distributes_across_cores: bool = False
    strict_cpu_reservation: bool = False
    prefers_uncore_cache: bool = False


def parse_static_options(values: Mapping[str, str], features: Features) -> StaticPolicyOptions:
    """Return the options of a configuration. Raises `InvalidPolicyOption`."""
    found: set[str] = set()
    for name, value in values.items():
        _check_available(name, features)
        if parse_bool_option(name, value):
            found.add(name)
    for one, other in _EXCLUSIVE:
        if one in found and other in found:
            raise InvalidPolicyOption(f"static policy options {one} and {other} can not be used at the same time")
    names = (FULL_PCPUS, ACROSS_NUMA, BY_SOCKET, ACROSS_CORES, STRICT, BY_UNCORE)
    return StaticPolicyOptions(*(name in found for name in names))


def validate_static_options(options: StaticPolicyOptions, topology: CpuTopology, topology_policy: str) -> None:
    """Raise `InvalidPolicyOption` for options that the machine or the topology manager does not allow."""
    if not options.aligns_by_socket:
        return
    if topology_policy == "single-numa-node":
        raise InvalidPolicyOption(
            f"Topolgy manager single-numa-node policy is incompatible with CPUManager {BY_SOCKET} policy option"
        )
    if topology.socket_count > topology.numa_count:
        raise InvalidPolicyOption(
            "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
        )


def _check_available(name: str, features: Features) -> None:
    if name not in _ALPHA | _BETA | _STABLE:
        raise InvalidPolicyOption(f'unknown CPU Manager Policy option: "{name}"')
    for level, gate, names in _GATES:
        if name in names and not features.is_enabled(gate):
            raise InvalidPolicyOption(
                f'CPU Manager Policy {level}-level Options not enabled, but option "{name}" provided'
            )
