# SPDX-License-Identifier: Apache-2.0
"""Static pods: manifests in a folder, mirrored in the API."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import Container, Node, Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.kubelet.agent import NodeAgent
from kubeloop.kubelet.agent_config import NodeAgentConfig
from kubeloop.kubelet.config.static_pods import (
    ALL_STATIC_PODS,
    StaticPodController,
    StaticPodSources,
    parse_manifest,
    read_manifests,
)
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.testing import Cluster

MANIFEST = "{apiVersion: v1, kind: Pod, metadata: {name: NAME}, spec: {containers: [{name: c, image: IMAGE}]}}"


def write(folder: Path, name: str, image: str = "proxy:1") -> None:
    (folder / f"{name}.yaml").write_text(MANIFEST.replace("NAME", name).replace("IMAGE", image))


def host(cluster: Cluster, folder: Path) -> None:
    config = NodeAgentConfig(count=2, static_pods=folder)
    fleet = NodeAgent(cluster.async_client, cluster.context.informers, cluster.clock, config)
    for loop in fleet.loops:
        cluster.start(loop)


def there(cluster: Cluster) -> dict[str, Pod]:
    return {pod.metadata.name: pod for pod in cluster.client.list("pods", "default").items}


def test_each_node_runs_each_manifest(cluster: Cluster, tmp_path: Path) -> None:
    write(tmp_path, "proxy")
    host(cluster, tmp_path)
    cluster.advance(1)
    pods = there(cluster)
    assert sorted(pods) == ["proxy-n1", "proxy-n2"]
    pod = pods["proxy-n1"]
    assert pod.status.phase == "Running"
    assert pod.spec.node_name == "n1"
    annotations = pod.metadata.annotations
    assert annotations["kubernetes.io/config.source"] == "file"
    assert annotations["kubernetes.io/config.mirror"] == annotations["kubernetes.io/config.hash"]
    (owner,) = pod.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller) == ("Node", "n1", True)


def test_deleted_mirror_pod_is_recreated(cluster: Cluster, tmp_path: Path) -> None:
    write(tmp_path, "proxy")
    host(cluster, tmp_path)
    cluster.advance(1)
    before = there(cluster)["proxy-n1"].metadata.uid
    cluster.client.delete(Pod, "proxy-n1", "default")
    cluster.advance(1)
    assert there(cluster)["proxy-n1"].metadata.uid != before


def test_folder_is_rescanned(cluster: Cluster, tmp_path: Path) -> None:
    write(tmp_path, "proxy")
    write(tmp_path, "log")
    host(cluster, tmp_path)
    cluster.advance(1)
    write(tmp_path, "proxy", "proxy:2")
    (tmp_path / "log.yaml").unlink()
    write(tmp_path, "new")
    cluster.advance(45)
    pods = there(cluster)
    assert sorted(pods) == ["new-n1", "new-n2", "proxy-n1", "proxy-n2"]
    assert pods["proxy-n1"].spec.containers[0].image == "proxy:2"  # type: ignore[index]
    assert all(pod.status.phase == "Running" for pod in pods.values())


class Remote:
    """Pods of a URL as last read."""

    location = "http://pods.example"

    def __init__(self) -> None:
        self.pods: list[Pod] | None = None


def make_manifest(name: str) -> Pod:
    spec = PodSpec(containers=(Container(name="c", image="i"),))
    return Pod(metadata=ObjectMeta(name=name), spec=spec)


def test_pods_of_a_url_are_mirrored_besides_files(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "proxy")
    informers, remote = cluster.context.informers, Remote()
    fleet = NodeAgent(cluster.async_client, informers, cluster.clock, NodeAgentConfig(count=1))
    pods = informers.for_resource(resource_of_class(Pod))
    sources = StaticPodSources(tmp_path, 20.0, remote)
    static = StaticPodController(cluster.async_client, pods, fleet.served_nodes, sources, cluster.clock)
    loop: Controller[ObjectKey] = Controller("static", static.reconcile, cluster.clock, workers=1)
    loop.watches(informers.for_resource(resource_of_class(Node)), lambda _: (ALL_STATIC_PODS,))
    for one in (*fleet.loops, loop):
        cluster.start(one)
    cluster.advance(30)
    assert sorted(there(cluster)) == ["proxy-n1"]
    remote.pods = [make_manifest("In_valid"), make_manifest("remote"), make_manifest("proxy")]
    cluster.advance(30)
    found = there(cluster)
    assert sorted(found) == ["proxy-n1", "remote-n1"]
    assert "Failed creating a mirror pod for static pod default/In_valid-n1" in caplog.text
    sources_of = {name: pod.metadata.annotations["kubernetes.io/config.source"] for name, pod in found.items()}
    assert sources_of == {"proxy-n1": "file", "remote-n1": "http"}
    stays = {
        name: "NoExecute" in [one.effect for one in pod.spec.tolerations if not one.key] for name, pod in found.items()
    }
    assert stays == {"proxy-n1": True, "remote-n1": False}
    remote.pods = None  # as after a restart: the URL could not be read yet
    cluster.advance(30)
    assert "remote-n1" in there(cluster)
    remote.pods = []
    cluster.advance(30)
    assert sorted(there(cluster)) == ["proxy-n1"]


def test_file_without_a_pod_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "proxy")
    (tmp_path / "broken.yaml").write_text("{")
    (tmp_path / "other.yaml").write_text("kind: Service")
    (tmp_path / ".hidden.yaml").write_text("{")
    assert [pod.metadata.name for pod in read_manifests(tmp_path)] == ["proxy"]
    assert {record.message.split(":")[0].rpartition("/")[2] for record in caplog.records} == {
        "broken.yaml",
        "other.yaml",
    }
    assert read_manifests(tmp_path / "nowhere") == []
    with pytest.raises(ValueError, match="a name and containers"):
        parse_manifest({"kind": "Pod"})


def test_a_single_file_is_a_source_of_static_pods(tmp_path: Path) -> None:
    write(tmp_path, "a")
    write(tmp_path, "b")
    assert len(read_manifests(tmp_path / "a.yaml")) == 1
    assert read_manifests(tmp_path / "none.yaml") == []
