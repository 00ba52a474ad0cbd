# SPDX-License-Identifier: Apache-2.0
"""Volumes that pods mount, and cannot mount, are counted."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import (
    ConfigMap,
    ConfigMapVolumeSource,
    ImageVolumeSource,
    Volume,
    VolumeMount,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.agent import NodeAgent
from kubeloop.testing import Cluster
from tests.kubelet.pods import get, put, runs, state


def value_of(agent: NodeAgent, series: str) -> float:
    lines = agent.kubelet_metrics.registry.render().splitlines()
    return next((float(one.rpartition(" ")[2]) for one in lines if one.rpartition(" ")[0] == series), 0.0)


def mounted(status: str) -> str:
    labels = f'migrated="false",operation_name="volume_mount",status="{status}",volume_plugin="kubernetes.io/configmap"'
    return f"storage_operation_duration_seconds_count{{{labels}}}"


def test_mounts_are_counted_with_their_failures_and_their_whole_time(cluster: Cluster) -> None:
    agent = cluster.add_nodes(1)
    shown = Volume(name="v", config_map=ConfigMapVolumeSource(name="settings"))
    mount = (VolumeMount(name="v", mount_path="/v"),)
    put(cluster, "pod", containers=(runs("server", volume_mounts=mount),), volumes=(shown,))
    cluster.advance(3)
    failed = value_of(agent, mounted("fail-unknown"))
    assert failed >= 2
    assert value_of(agent, mounted("success")) == 0
    cluster.client.create(ConfigMap(metadata=ObjectMeta(name="settings", namespace="default")))
    cluster.advance(60)
    assert value_of(agent, mounted("success")) == 1
    labels = 'operation_name="overall_volume_mount",plugin_name="kubernetes.io/configmap"'
    assert value_of(agent, f"volume_operation_total_seconds_count{{{labels}}}") == 1
    assert value_of(agent, f"volume_operation_total_seconds_sum{{{labels}}}") >= 3


def test_image_volumes_are_counted_when_containers_start(cluster: Cluster) -> None:
    agent = cluster.add_nodes(1)
    volumes = tuple(Volume(name=name, image=ImageVolumeSource(reference="example.com/data:1")) for name in ("a", "b"))
    mount = (VolumeMount(name="a", mount_path="/a"),)
    put(cluster, "pod", containers=(runs("server", volume_mounts=mount),), volumes=volumes)
    cluster.advance(10)
    assert state(get(cluster, "pod")) == "running"
    assert value_of(agent, "kubelet_image_volume_requested_total") == 2
    assert value_of(agent, "kubelet_image_volume_mounted_succeed_total") == 1
    assert value_of(agent, "kubelet_image_volume_mounted_errors_total") == 0
