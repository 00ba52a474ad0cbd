# SPDX-License-Identifier: Apache-2.0
"""Choice of CPUs by the topology; the expected sets are upstream's."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.kubelet.cm.cpus.cpu_distributor import DistributedRequest, take_distributed
from kubeloop.kubelet.cm.cpus.cpu_packer import NotEnoughCpus, take_packed
from kubeloop.kubelet.cm.cpus.cpu_topology import CpuTopology, new_cpu_topology
from kubeloop.kubelet.cm.cpus.cpuset import InvalidCpuSet, format_cpuset, parse_cpuset
from tests.unit.kubelet.cm.machines import (
    DUAL_SOCKET_HT,
    MULTI_NUMA_HT,
    SINGLE_SOCKET_HT,
    TWO_CPUS,
    UNCORE_NO_SMT,
)

SINGLE, DUAL, MULTI, UNCORE, SMALL = (
    new_cpu_topology(one) for one in (SINGLE_SOCKET_HT, DUAL_SOCKET_HT, MULTI_NUMA_HT, UNCORE_NO_SMT, TWO_CPUS)
)
COMMON = [
    (SINGLE, "0-7", 0, ""),
    (SINGLE, "0-7", 1, "0"),
    (SINGLE, "1,3,5-7", 1, "6"),
    (SINGLE, "0-7", 2, "0,4"),
    (SINGLE, "0-7", 8, "0-7"),
    (SINGLE, "0-3,6", 2, "2,6"),
    (DUAL, "0-11", 6, "0,2,4,6,8,10"),
    (MULTI, "0-79", 40, "0-19,40-59"),
    (MULTI, "0-79", 20, "0-9,40-49"),
    (MULTI, "10-39,50-79", 20, "10-19,50-59"),
    (MULTI, "0-79", 60, "0-29,40-69"),
    (MULTI, "1-39,41-79", 60, "10-39,50-79"),
]


@pytest.mark.parametrize(("text", "cpus"), [("", ()), ("3", (3,)), ("0-2,5,7-8", (0, 1, 2, 5, 7, 8))])
def test_cpusets_are_written_as_the_kernel_does(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpuset(text) == frozenset(cpus)
    assert format_cpuset(cpus) == text


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "1.3", "0-1-2"])
def test_malformed_cpusets_are_refused(text: str) -> None:
    with pytest.raises(InvalidCpuSet):
        parse_cpuset(text)


@given(st.frozensets(st.integers(0, 300)))
def test_a_formatted_cpuset_is_parsed_to_the_same(cpus: frozenset[int]) -> None:
    assert parse_cpuset(format_cpuset(cpus)) == cpus


@pytest.mark.parametrize(
    ("topology", "available", "count", "expected"),
    [
        *COMMON,
        (DUAL, "1-5,7-11", 1, "2"),
        (DUAL, "0-11", 8, "0-2,4,6-8,10"),
        (MULTI, "0-79", 64, "0-31,40-71"),
    ],
)
def test_cpus_are_packed(topology: CpuTopology, available: str, count: int, expected: str) -> None:
    assert format_cpuset(take_packed(topology, parse_cpuset(available), count)) == expected


def test_cpus_of_few_caches_are_preferred() -> None:
    assert format_cpuset(take_packed(UNCORE, parse_cpuset("1-15"), 10, by_uncore=True)) == "1-2,4-11"
    assert format_cpuset(take_packed(DUAL, parse_cpuset("1-5,7-11"), 1, by_uncore=True)) == "2"


def test_cpus_are_spread_over_cores() -> None:
    assert format_cpuset(take_packed(MULTI, parse_cpuset("0-79"), 8, spreads_cores=True)) == "0-7"


def test_more_cpus_than_available_are_refused() -> None:
    message = "not enough cpus available to satisfy request: requested=5, available=4"
    with pytest.raises(NotEnoughCpus, match=message):
        take_packed(SINGLE, parse_cpuset("0,2,4,6"), 5)
    with pytest.raises(NotEnoughCpus, match=message):
        take_distributed(SINGLE, parse_cpuset("0,2,4,6"), DistributedRequest(5))


@pytest.mark.parametrize(
    ("topology", "available", "count", "group", "expected"),
    [
        *((*one[:3], 1, one[3]) for one in COMMON),
        (DUAL, "0-11", 8, 1, "0-3,6-9"),
        (MULTI, "0-79", 64, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-67,70-77"),
        (MULTI, "0-79", 48, 1, "0-7,10-17,20-27,40-47,50-57,60-67"),
        (MULTI, "1-29,32-39,41-69,72-79", 48, 1, "1-8,10-17,20-27,41-48,50-57,60-67"),
        (MULTI, "2-29,31-39,42-69,71-79", 48, 1, "10-17,20-27,31-38,50-57,60-67,71-78"),
        (
            *(MULTI, "0-2,10-12,20-22,30-32,40-41,50-51,60-61,70-71", 16, 1),
            "0-1,10-11,20-21,30-31,40-41,50-51,60-61,70-71",
        ),
        (DUAL, "1-5,7-11", 1, 1, "1"),
        (DUAL, "1-5,7-11", 1, 2, "2"),
        (MULTI, "0-79", 26, 1, "0-6,10-16,40-45,50-55"),
        (MULTI, "0-79", 26, 2, "0-6,10-15,40-46,50-55"),
        (MULTI, "0-79", 62, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-66,70-76"),
        (MULTI, "0-79", 62, 2, "0-7,10-17,20-27,30-36,40-47,50-57,60-67,70-76"),
        (
            *(MULTI, "0-8,10-18,20-39,40-48,50-58,60-79", 62, 1),
            "0-7,10-17,20-27,30-37,40-46,50-56,60-67,70-77",
        ),
        (
            *(MULTI, "0-8,10-18,20-39,40-48,50-58,60-79", 62, 2),
            "0-7,10-16,20-27,30-37,40-47,50-56,60-67,70-77",
        ),
        (
            *(MULTI, "0-3,10-13,20-23,30-36,40-43,50-53,60-63,70-76", 34, 1),
            "0-3,10-13,20-23,30-34,40-43,50-53,60-63,70-74",
        ),
    ],
)
def test_cpus_are_distributed(topology: CpuTopology, available: str, count: int, group: int, expected: str) -> None:
    found = take_distributed(topology, parse_cpuset(available), DistributedRequest(count, group))
    assert format_cpuset(found) == expected


def test_numa_nodes_of_one_socket_are_preferred_where_that_is_asked_for() -> None:
    """The balanced pair spans both sockets; the other pair is in one."""
    available = parse_cpuset("0-9,40-49,10-19,50-53,20-29,60-69,30-39,70-79")
    request = DistributedRequest(34, by_socket=True)
    found = take_distributed(MULTI, available, request)
    assert len(MULTI.details.keep_only(found).ids("socket")) == 1


@given(data=st.data(), which=st.sampled_from(list(product((SINGLE, DUAL, MULTI, UNCORE, SMALL), (False, True)))))
def test_any_choice_takes_as_many_available_cpus_as_asked_for(
    data: st.DataObject, which: tuple[CpuTopology, bool]
) -> None:
    topology, flag = which
    available = data.draw(st.frozensets(st.sampled_from(sorted(topology.details.cpus)), min_size=1))
    count = data.draw(st.integers(0, len(available)))
    for found in (
        take_packed(topology, available, count, spreads_cores=flag),
        take_packed(topology, available, count, by_uncore=flag),
        take_distributed(topology, available, DistributedRequest(count, topology.cpus_per_core if flag else 1)),
        take_distributed(topology, available, DistributedRequest(count, by_socket=flag)),
    ):
        assert len(found) == count
        assert found <= available


@given(data=st.data())
def test_whole_cores_are_taken_while_there_are_any(data: st.DataObject) -> None:
    cores = data.draw(st.frozensets(st.integers(0, 39), min_size=1))
    available = MULTI.details.cpus_in("core", *cores)
    count = 2 * data.draw(st.integers(1, len(cores)))
    found = take_packed(MULTI, available, count)
    assert found == MULTI.details.cpus_in("core", *{MULTI.details[cpu].core for cpu in found})
