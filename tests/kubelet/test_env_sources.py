# SPDX-License-Identifier: Apache-2.0
"""Variables of containers that come from config maps and secrets."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import (
    ConfigMap,
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    EmptyDirVolumeSource,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    Event,
    ObjectFieldSelector,
    Pod,
    ResourceFieldSelector,
    Secret,
    SecretKeySelector,
    Volume,
    VolumeMount,
)
from kubeloop.kubelet.node_status.registration import NodeShape
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import container, get, put, runs, state
from tests.kubelet.test_streaming import Client


def from_map(name: str, key: str, *, optional: bool | None = None) -> EnvVar:
    selector = ConfigMapKeySelector(name=name, key=key, optional=optional)
    return EnvVar(name="MAPPED", value_from=EnvVarSource(config_map_key_ref=selector))


def make(cluster: Cluster) -> None:
    cluster.client.create(ConfigMap(metadata=builders.metadata("settings", "default"), data={"colour": "blue"}))
    cluster.client.create(Secret(metadata=builders.metadata("keys", "default"), data={"pin": b"1234"}))


def test_variables_from_references_have_their_values(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    make(cluster)
    secret = EnvVarSource(secret_key_ref=SecretKeySelector(name="keys", key="pin"))
    env = (from_map("settings", "colour"), EnvVar(name="PIN", value_from=secret), EnvVar(name="BOTH", value="$(PIN)!"))
    whole = EnvFromSource(prefix="ALL_", config_map_ref=ConfigMapEnvSource(name="settings"))
    put(cluster, containers=(runs("server", env=env, env_from=(whole,)),))
    client = Client()
    cluster.run(fleet.dialer.execute(get(cluster), "app", ("env",), client))
    assert client.heard.decode().splitlines() == [
        "HOSTNAME=pod",
        "ALL_colour=blue",
        "MAPPED=blue",
        "PIN=1234",
        "BOTH=1234!",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"env": (from_map("none", "x"),)}, 'configmap "none" not found'),
        ({"env": (from_map("settings", "x"),)}, "couldn't find key x in ConfigMap default/settings"),
        ({"env_from": (EnvFromSource(config_map_ref=ConfigMapEnvSource(name="none")),)}, 'configmap "none" not found'),
    ],
)
def test_container_waits_for_missing_references(cluster: Cluster, fields: dict[str, Any], message: str) -> None:
    cluster.add_nodes(1)
    make(cluster)
    put(cluster, containers=(runs("server", **fields),))
    waiting = container(get(cluster)).state.waiting
    assert waiting is not None
    assert (waiting.reason, waiting.message) == ("CreateContainerConfigError", message)
    cluster.advance(1)
    told = [(one.reason, one.message) for one in cluster.client.list(Event, "default").items]
    assert ("Failed", f"Error: {message}") in told
    cluster.client.create(ConfigMap(metadata=builders.metadata("none", "default"), data={"x": "y"}))
    cluster.client.patch(ConfigMap, "settings", {"data": {"x": "y"}}, "default")
    cluster.advance(11)
    assert state(get(cluster)) == "running"


def test_container_without_limit_sees_the_nodes_allocatable(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1, shape=NodeShape(cpu="6"))
    names = {"LIMIT": "limits.cpu", "REQUEST": "requests.cpu"}
    env = tuple(
        EnvVar(name=name, value_from=EnvVarSource(resource_field_ref=ResourceFieldSelector(resource=resource)))
        for name, resource in names.items()
    )
    put(cluster, containers=(runs("server", env=env),))
    client = Client()
    cluster.run(fleet.dialer.execute(get(cluster), "app", ("printenv", "LIMIT", "REQUEST"), client))
    assert client.heard == b"6\n0\n"


def test_optional_references_are_skipped(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, containers=(runs("server", env=(from_map("none", "x", optional=True),)),))
    assert state(get(cluster)) == "running"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "missing value for FOLDER"),
        ("/tmp", "error SubPath `/tmp/$(x)` must not be an absolute path"),
        ("..", "unable to provision SubPath `../$(x)`: must not contain '..'"),
    ],
)
def test_container_waits_until_its_sub_paths_can_be_expanded(cluster: Cluster, value: str, message: str) -> None:
    cluster.add_nodes(1)
    source = EnvVarSource(field_ref=ObjectFieldSelector(field_path="metadata.annotations['folder']"))
    env = (EnvVar(name="FOLDER", value_from=source),)
    mounts = (VolumeMount(name="v", mount_path="/v", sub_path_expr="$(FOLDER)/$$(x)"),)
    volumes = (Volume(name="v", empty_dir=EmptyDirVolumeSource()),)
    put(cluster, containers=(runs("server", env=env, volume_mounts=mounts),), volumes=volumes)
    cluster.client.patch(Pod, "pod", {"metadata": {"annotations": {"folder": value}}}, "default")
    waiting = container(get(cluster)).state.waiting
    assert waiting is not None
    assert waiting.reason == "CreateContainerConfigError"
    cluster.advance(11)
    waiting = container(get(cluster)).state.waiting
    assert waiting is not None
    assert waiting.message == message
    cluster.client.patch(Pod, "pod", {"metadata": {"annotations": {"folder": "data"}}}, "default")
    cluster.advance(11)
    assert state(get(cluster)) == "running"
