# SPDX-License-Identifier: Apache-2.0
"""Tests of the remedies for every plugin's rejection, with names and numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from kubeloop.api.generated.storage_v1 import CSINode, StorageClass
from kubeloop.cli.scheduler.pending_diagnosis import PendingDiagnosis, render
from kubeloop.scheduler.config.configuration import default_profile
from kubeloop.scheduler.explain.claim_remedies import CLAIM_REMEDIES
from kubeloop.scheduler.explain.explain import NodeRejection, explain
from kubeloop.scheduler.explain.remedies import NODE_REMEDIES
from kubeloop.scheduler.framework.per_node_plugin import PerNodePlugin
from kubeloop.scheduler.framework.plugin import implements
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.registry import PLUGINS, PluginRegistry
from kubeloop.scheduler.queue.nominator import Nominator
from tests.unit.scheduler.random_clusters import RandomCluster


def a_node(**change: Any) -> Node:
    room = {"cpu": "2", "memory": "4Gi", "pods": "3"}
    meta = {"name": "n1", "labels": {"zone": "east", "disk": "hdd", **change.pop("labels", {})}}
    status = {"allocatable": room, **change.pop("status", {})}
    return from_plain({"metadata": meta, "status": status, "spec": change}, Node)


def a_pod(name: str = "new", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    container = {"name": "c", **spec.pop("container", {})}
    meta = {"name": name, "uid": name, "namespace": "default", "labels": labels or {}}
    return from_plain({"metadata": meta, "spec": {"containers": [container], **spec}}, Pod)


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": name}}


def claiming(name: str) -> list[dict[str, Any]]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}}]


def requesting(**amounts: str) -> dict[str, Any]:
    return {"container": {"resources": {"requests": amounts}}}


def objections(env: RandomCluster, pod: Pod, *more: type[PerNodePlugin]) -> list[NodeRejection]:
    around: Any = env.around
    around.nominator = Nominator()
    config = default_profile()
    names = (*config.plugin_names, *(one.name for one in more))
    registry = PluginRegistry({one.name: one for one in more})
    profile = Profile(type(config)(config.scheduler_name, names), registry, around)
    return list(explain(profile, env.cluster, env.info(pod)))


def advice(pod: Pod, node: Node | None = None, beside: Pod | None = None, *objects: Any) -> list[tuple[str, str]]:
    """Return the rejecting plugins of the only node, with remedies."""
    env = RandomCluster()
    env.add_node(node or a_node())
    env.add(*objects)
    if beside is not None:
        env.add_pod(beside, "n1")
    found = objections(env, pod)
    assert all(one.reasons for one in found)
    return [(one.plugin, one.advice) for one in found]


TERM = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PORT: dict[str, Any] = {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}}
EXPRESSIONS = [{"key": "disk", "operator": "In", "values": ["ssd"]}, {"key": "gpu", "operator": "Exists"}]
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "db"}},
    "minDomains": 2,
}
TAINTS = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "c", "effect": "NoExecute"}]
NEW_DISK = {"gcePersistentDisk": {"pdName": "d"}, "name": "d"}
ELSEWHERE = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": EXPRESSIONS}]}}}


@pytest.mark.parametrize(
    ("pod", "node", "beside", "plugin", "helps"),
    [
        (
            a_pod(**requesting(cpu="1500m", memory="5Gi")), None, a_pod("old", **requesting(cpu="1")),
            "NodeResourcesFit",
            "cpu: 1500m requested, 1 free of 2: 500m more must become free; memory: 5Gi requested, the node has "
            "4Gi in total: request less",
        ),
        (
            a_pod(), a_node(status={"allocatable": {"pods": "1"}}), a_pod("old"), "NodeResourcesFit",
            "1 pods is the node's maximum: delete one, or raise the maximum",
        ),
        (a_pod(**PORT), None, a_pod("old", **PORT), "NodePorts", "80/TCP is default/old's"),
        (
            a_pod(), a_node(taints=TAINTS), None, "TaintToleration",
            "tolerate a:NoSchedule, b=c:NoExecute, or remove them",
        ),
        (a_pod(), a_node(unschedulable=True), None, "NodeUnschedulable", "kubectl uncordon n1"),
        (a_pod(nodeName="n9"), None, None, "NodeName", "the pod requires the node n9"),
        (a_pod(nodeSelector={"disk": "ssd"}), None, None, "NodeAffinity", "label it disk=ssd"),
        (
            a_pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": EXPRESSIONS}]}}}),
            None, None, "NodeAffinity", "needs disk In [ssd] (it has hdd) and gpu Exists",
        ),
        (
            a_pod(hostNetwork=True, hostUsers=False), None, None, "NodeDeclaredFeatures",
            "a node that declares UserNamespacesHostNetworkSupport",
        ),
        (
            a_pod(affinity={"podAffinity": {REQUIRED: [TERM]}}), None, a_pod("old"), "InterPodAffinity",
            "start a pod with app=db in zone=east",
        ),
        (
            a_pod(affinity={"podAntiAffinity": {REQUIRED: [TERM]}}), None, a_pod("old", {"app": "db"}),
            "InterPodAffinity", "the pod avoids app=db: default/old is in zone=east",
        ),
        (
            a_pod(labels={"app": "db"}), None, a_pod("old", affinity={"podAntiAffinity": {REQUIRED: [TERM]}}),
            "InterPodAffinity", "default/old avoids pods like this in zone=east",
        ),
        (
            a_pod(labels={"app": "db"}, topologySpreadConstraints=[SPREAD]), None, a_pod("old", {"app": "db"}),
            "PodTopologySpread",
            "zone=east has 1 such pods, 0 is the minimum of the other domains and maxSkew is 1: at most 1 with "
            "this one",
        ),
        (
            a_pod(topologySpreadConstraints=[{**SPREAD, "topologyKey": "rack"}]), None, None, "PodTopologySpread",
            "label it rack",
        ),
        (
            a_pod(volumes=[NEW_DISK]), None, a_pod("old", volumes=[NEW_DISK]), "VolumeRestrictions",
            "default/old uses the same disk on this node",
        ),
        (a_pod(schedulingGates=[{"name": "g"}]), None, None, "SchedulingGates", "remove the pod's scheduling gates"),
        (a_pod(volumes=claiming("c")), None, None, "VolumeBinding", "create it, or wait for its controller"),
    ],
)  # fmt: skip
def test_remedies(pod: Pod, node: Node | None, beside: Pod | None, plugin: str, helps: str) -> None:
    assert (plugin, helps) in advice(pod, node, beside)


def claim(**spec: Any) -> PersistentVolumeClaim:
    done = {"pv.kubernetes.io/bind-completed": "yes"} if "volumeName" in spec else {}
    plain = named("c")
    resources = {"requests": {"storage": "5Gi"}}
    meta = {**plain["metadata"], "annotations": done}
    return from_plain({"metadata": meta, "spec": {"resources": resources, **spec}}, PersistentVolumeClaim)


def volume(**spec: Any) -> PersistentVolume:
    labels = {"topology.kubernetes.io/zone": "west"}
    return from_plain({"metadata": {"name": "v", "labels": labels}, "spec": spec}, PersistentVolume)


def test_remedies_for_volumes() -> None:
    node = a_node(labels={"topology.kubernetes.io/zone": "east"})
    pod = a_pod(volumes=claiming("c"))
    found = advice(pod, node, None, claim(volumeName="v"), volume(**ELSEWHERE))
    assert found == [
        ("VolumeBinding", "volume v is not accessible from this node"),
        ("VolumeZone", "volume v is in topology.kubernetes.io/zone=west"),
    ]
    gone = "claim c is bound to volume v, which does not exist"
    assert ("VolumeBinding", gone) in advice(pod, node, None, claim(volumeName="v"))
    by_hand = {"metadata": {"name": "by-hand"}, "provisioner": "kubernetes.io/no-provisioner"}
    later = from_plain({**by_hand, "volumeBindingMode": "WaitForFirstConsumer"}, StorageClass)
    assert advice(pod, node, None, claim(storageClassName="by-hand"), later) == [
        (
            "VolumeBinding",
            "claim c needs an available volume of class by-hand with 5Gi that is accessible from this node",
        )
    ]
    alone = claim(volumeName="v", accessModes=["ReadWriteOncePod"])
    used = advice(pod, None, a_pod("old", volumes=claiming("c")), alone, volume())
    assert ("VolumeRestrictions", "default/old uses the claim c: delete it") in used
    csi = volume(csi={"driver": "disk.example.com", "volumeHandle": "h"})
    full = [{"name": "disk.example.com", "nodeID": "n1", "allocatable": {"count": 0}}]
    limits = from_plain({"metadata": {"name": "n1"}, "spec": {"drivers": full}}, CSINode)
    told = "disk.example.com attaches at most 0 volumes: delete a pod that uses some"
    assert advice(pod, None, None, claim(volumeName="v"), csi, limits) == [("NodeVolumeLimits", told)]


def test_remedies_for_devices() -> None:
    pod = a_pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    assert advice(pod) == [("DynamicResources", "create it, or wait for its controller")]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}
    wanted = from_plain({**named("gpu"), "spec": {"devices": {"requests": [request]}}}, ResourceClaim)
    kind = from_plain({"metadata": {"name": "gpu"}}, DeviceClass)
    devices = [{"name": "d0"}]
    spec: dict[str, Any] = {"driver": "gpu.example.com", "nodeName": "n1", "devices": devices}
    spec["pool"] = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    one = from_plain({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)
    told = "claim gpu: not enough devices of gpu are accessible from this node"
    assert advice(pod, None, None, wanted, kind, one) == [("DynamicResources", told)]
    asking = a_pod(container={"resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu": "2"}}})
    told = "extended resources: not enough devices of gpu are accessible from this node"
    assert advice(asking, None, None, kind, one) == [("DynamicResources", told)]
    result = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d0"}
    status = {"allocation": {"devices": {"results": [result]}}}
    taken = from_plain({**named("other"), "spec": {}, "status": status}, ResourceClaim)
    single = from_plain({**named("gpu"), "spec": {"devices": {"requests": [altered_count(request, 1)]}}}, ResourceClaim)
    told = "claim gpu: devices of gpu are taken by other claims"
    assert advice(pod, None, None, single, kind, one, taken) == [("DynamicResources", told)]


def altered_count(request: dict[str, Any], count: int) -> dict[str, Any]:
    return {**request, "exactly": {**request["exactly"], "count": count}}


class RejectAll(PerNodePlugin):
    name = "RejectAll"

    def filter_node(self, pod: Any, node: Any) -> str:
        return "never"

    def describe_remedy(self, pod: Any, node: Any) -> str:
        return f"ask {node.metadata.name} nicely"


def test_custom_plugin_has_a_remedy() -> None:
    env = RandomCluster()
    env.add_node(a_node())
    assert objections(env, a_pod(), RejectAll) == [NodeRejection("n1", "RejectAll", ("never",), "ask n1 nicely")]


def test_every_filter_plugin_has_a_remedy() -> None:
    registry = PluginRegistry()
    filtering = {name for name in PLUGINS if implements(registry.plugin_class(name), "filter")}
    assert filtering == {*NODE_REMEDIES, *CLAIM_REMEDIES}


def test_output_formats() -> None:
    one = NodeRejection("n1", "Mine", ("too blue", "too old"), "paint it")
    found = PendingDiagnosis((one, NodeRejection("", "Other", ("no",))), ["n2"])
    assert render(found, "").splitlines() == [
        "NODE    PLUGIN   REASON              REMEDY",
        "n1      Mine     too blue, too old   paint it",
        "(all)   Other    no",
        "Not rejected by any plugin: n2",
    ]
    document = {
        "nodeName": "",
        "rejections": [
            {"node": "n1", "plugin": "Mine", "reasons": ["too blue", "too old"], "advice": "paint it"},
            {"node": "", "plugin": "Other", "reasons": ["no"], "advice": ""},
        ],
        "feasibleNodes": ["n2"],
    }
    assert json.loads(render(found, "json")) == document
    assert yaml.safe_load(render(found, "yaml")) == document
