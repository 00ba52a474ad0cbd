# SPDX-License-Identifier: Apache-2.0
"""Providers are found by name: ours, and those that are installed beside us."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from kubeloop.cloud import CONTROLLERS, provider_registry
from kubeloop.cloud.app import build_app
from kubeloop.cloud.config import CloudConfig
from kubeloop.cloud.context import CloudControllerContext
from kubeloop.cloud.provider_registry import GROUP, InvalidProvider, ProviderDependencies, load
from kubeloop.testing import Cluster
from tests.cloud.memory_cloud import MemoryCloud

ME = "tests.cloud.test_provider_registry"


def make(_: ProviderDependencies) -> MemoryCloud:
    return MemoryCloud(name="mine")


def broken(_: ProviderDependencies) -> MemoryCloud:
    raise RuntimeError("no license")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"mine": f"{ME}:make", "broken": f"{ME}:broken", "lost": "no_such_module:make"}
    points = [EntryPoint(name, value, GROUP) for name, value in names.items()]
    monkeypatch.setattr(provider_registry, "entry_points", lambda group: [one for one in points if one.group == group])


def around(cluster: Cluster) -> ProviderDependencies:
    return ProviderDependencies(cluster.context.client, cluster.context.informers, cluster.clock)


def test_custom_provider_is_loaded_by_entry_point(cluster: Cluster) -> None:
    assert load("mine", around(cluster)).name == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "cannot be empty"),
        ("nimbus", 'unknown cloud provider "nimbus"; there are: aws, broken, local, lost, mine'),
        ("broken", "RuntimeError: no license"),
        ("lost", "no_such_module"),
    ],
)
def test_unusable_provider_is_reported_in_one_sentence(cluster: Cluster, name: str, message: str) -> None:
    with pytest.raises(InvalidProvider, match=message):
        load(name, around(cluster))


def test_controllers_run_only_with_the_interfaces_they_need(cluster: Cluster) -> None:
    nothing: Any = None
    cloud = MemoryCloud(instances=nothing, routes=nothing)
    shared = cluster.context
    context = CloudControllerContext(
        shared.client, shared.informers, shared.clock, shared.recorder, cloud, CloudConfig()
    )
    hosted = build_app(CONTROLLERS, context, lambda _: shared.client)
    assert hosted.manager.names == ("service-lb-controller",)
