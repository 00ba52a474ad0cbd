# SPDX-License-Identifier: Apache-2.0
"""Tests of the mirror controller, with a separate in-memory cluster for each test."""

import pytest
from mirror import NAME, SOURCE, wire

from kubeloop.client import NotFound
from kubeloop.testing import Cluster, config_map, namespace
from kubeloop.types.core_v1 import ConfigMap


@pytest.fixture
def mirrored(cluster: Cluster) -> Cluster:
    cluster.add(config_map(NAME, {"colour": "blue"}, SOURCE))
    cluster.add(namespace("shop", labels={"mirror": "yes"}), namespace("other"))
    cluster.start(wire)
    return cluster


def colour(cluster: Cluster, where: str) -> str:
    return cluster.client.get(ConfigMap, NAME, where).data["colour"]


def test_labelled_namespaces_get_a_copy(mirrored: Cluster) -> None:
    assert colour(mirrored, "shop") == "blue"
    with pytest.raises(NotFound):
        colour(mirrored, "other")
    assert [event.reason for event in mirrored.events()] == ["Mirrored"]


def test_copies_follow_the_source_and_are_recreated(mirrored: Cluster) -> None:
    mirrored.client.patch(ConfigMap, NAME, {"data": {"colour": "green"}}, SOURCE)
    mirrored.settle()
    assert colour(mirrored, "shop") == "green"
    mirrored.client.delete(ConfigMap, NAME, "shop")
    mirrored.settle()
    assert colour(mirrored, "shop") == "green"


def test_injected_faults_delay_copies_but_lose_none(mirrored: Cluster) -> None:
    mirrored.faults.conflict("patch", "configmaps", times=3)
    mirrored.faults.drop_watches()
    mirrored.add(namespace("late", labels={"mirror": "yes"}))
    mirrored.advance(minutes=5)
    assert colour(mirrored, "late") == "blue"
