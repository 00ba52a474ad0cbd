# SPDX-License-Identifier: Apache-2.0
"""Refused pods and what may help them: objects and changes as tests of hints say them."""

from __future__ import annotations

from typing import Any, NamedTuple

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim
from kubeloop.api.generated.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.scheduler.framework.plugin import Plugin
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, NODE, TARGET_POD, ActionType
from tests.unit.scheduler.random_clusters import RandomCluster

ZONE = "topology.kubernetes.io/zone"


YES, NO = True, False
Row = tuple[type[Plugin], Pod, "ObjectChange", bool]  # the rejecting plugin, the pod, the event, and the expected hint


class ObjectChange(NamedTuple):
    """Change of an object: a new one has no `old`, a deleted one no `new`."""

    resource: str
    action: ActionType
    old: Any
    new: Any


def helps(kind: type[Plugin], pod: Pod, change: ObjectChange, *, around: tuple[Any, ...] = (), **args: Any) -> bool:
    env = RandomCluster()
    env.add(*around)
    plugin = env.plugin(kind, args)
    heard = [
        one for one in plugin.events_to_register() if one.resource == change.resource and one.actions & change.action
    ]
    info = env.info(pod)
    return any(one.queueing_hint_fn is None or one.queueing_hint_fn(info, change.old, change.new) for one in heard)


# Objects.


def made(kind: type[Any], name: str, **body: Any) -> Any:
    meta = {"name": name, "uid": name, **body.pop("metadata", {})}
    return from_plain({"metadata": meta, **body}, kind)


def pod(name: str = "web", *, on: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    meta = {"namespace": "shop", "labels": labels or {}, **spec.pop("metadata", {})}
    status = spec.pop("status", {})
    spec.setdefault("containers", [{"name": "c"}])
    return made(Pod, name, metadata=meta, spec={"nodeName": on, **spec}, status=status)  # type: ignore[no-any-return]


def asking(cpu: str = "1", name: str = "web", on: str = "", **more: str) -> Pod:
    requests = {"cpu": cpu, **{key.replace("_", "-"): value for key, value in more.items()}}
    return pod(name, on=on, containers=[{"name": "c", "resources": {"requests": requests}}])


def node(name: str = "n1", labels: dict[str, str] | None = None, **body: Any) -> Node:
    return made(Node, name, metadata={"labels": labels or {}}, **body)  # type: ignore[no-any-return]


def roomy(cpu: str, **more: str) -> Node:
    return node(status={"allocatable": {"cpu": cpu, "pods": "10", **more}})


def tainted(*keys: str) -> Node:
    return node(spec={"taints": [{"key": one, "effect": "NoSchedule"} for one in keys]})


def cordoned(is_cordoned: bool) -> Node:
    return node(spec={"unschedulable": is_cordoned})


def tolerating(*keys: str, **spec: Any) -> Pod:
    return pod(tolerations=[{"key": one, "operator": "Exists"} for one in keys], **spec)


def term(key: str = "zone", **labels: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def near(*terms: dict[str, Any], **spec: Any) -> Pod:
    return pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}, **spec)


def apart(*terms: dict[str, Any], **spec: Any) -> Pod:
    return pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}, **spec)


def spread(*keys: str, **constraint: Any) -> Pod:
    selector = {"matchLabels": {"app": "web"}}
    rule = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **constraint}
    return pod(labels={"app": "web"}, topologySpreadConstraints=[{"topologyKey": key, **rule} for key in keys])


def with_volume(**source: Any) -> Pod:
    return pod(volumes=[{"name": "v", **source}])


def with_claim(name: str, on: str = "") -> Pod:
    return pod(on=on, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


def claim(name: str, namespace: str = "shop") -> PersistentVolumeClaim:
    return made(PersistentVolumeClaim, name, metadata={"namespace": namespace})  # type: ignore[no-any-return]


def volume(zone: str = "", other: str = "") -> PersistentVolume:
    return made(PersistentVolume, "pv", metadata={"labels": {ZONE: zone, "other": other}})  # type: ignore[no-any-return]


def storage_class(mode: str = "WaitForFirstConsumer", *zones: str) -> StorageClass:
    places = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else []
    return made(StorageClass, "sc", provisioner="p", volumeBindingMode=mode, allowedTopologies=places)  # type: ignore[no-any-return]


def csi_node(limits: dict[str, int | None], **annotations: str) -> CSINode:
    drivers = [
        {"name": name, "nodeID": "n", **({} if count is None else {"allocatable": {"count": count}})}
        for name, count in limits.items()
    ]
    return made(CSINode, "n1", metadata={"annotations": annotations}, spec={"drivers": drivers})  # type: ignore[no-any-return]


def migrating(plugins: str) -> CSINode:
    return made(CSINode, "n1", metadata={"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": plugins}})  # type: ignore[no-any-return]


def capacity(size: str | None, largest: str | None = None) -> CSIStorageCapacity:
    told = {key: value for key, value in (("capacity", size), ("maximumVolumeSize", largest)) if value is not None}
    return made(CSIStorageCapacity, "cap", storageClassName="sc", **told)  # type: ignore[no-any-return]


def driver(counts: bool | None, name: str = "d") -> CSIDriver:
    return made(CSIDriver, name, spec={} if counts is None else {"storageCapacity": counts})  # type: ignore[no-any-return]


def attachment(attacher: str) -> VolumeAttachment:
    spec = {"attacher": attacher, "nodeName": "n1", "source": {"persistentVolumeName": "pv"}}
    return made(VolumeAttachment, "va", spec=spec)  # type: ignore[no-any-return]


def device_class(name: str, resource: str | None = None) -> DeviceClass:
    return made(DeviceClass, name, spec={} if resource is None else {"extendedResourceName": resource})  # type: ignore[no-any-return]


def devices(name: str, *, given: bool = False, users: int = 0) -> ResourceClaim:
    allocation: dict[str, Any] = {"allocation": {"devices": {"results": []}}} if given else {}
    reserved = [{"resource": "pods", "name": f"p{number}", "uid": f"p{number}"} for number in range(users)]
    status = {**allocation, "reservedFor": reserved}
    return made(ResourceClaim, name, metadata={"namespace": "shop"}, spec={"devices": {}}, status=status)  # type: ignore[no-any-return]


def with_devices(*names: str, told: tuple[str, ...] = ()) -> Pod:
    """Claims by name, and claims from a template; some are recorded in the pod's status."""
    listed = [{"name": one, "resourceClaimName": one} for one in names]
    listed += [{"name": one, "resourceClaimTemplateName": "t"} for one in ("made",) if told or not names]
    statuses = [{"name": "made", "resourceClaimName": one} for one in told]
    return pod(resourceClaims=listed, status={"resourceClaimStatuses": statuses})


# Changes.


def add(new: Any, resource: str = "") -> ObjectChange:
    return ObjectChange(resource or resource_of_class(type(new)).group_resource, ActionType.ADD, None, new)


def delete(old: Any, resource: str = "") -> ObjectChange:
    return ObjectChange(resource or resource_of_class(type(old)).group_resource, ActionType.DELETE, old, None)


def update(old: Any, new: Any, action: ActionType = ActionType.UPDATE, resource: str = "") -> ObjectChange:
    return ObjectChange(resource or resource_of_class(type(new)).group_resource, action, old, new)


def node_came(new: Node) -> ObjectChange:
    return add(new, NODE)


def ended(old: Pod) -> ObjectChange:
    return delete(old, ASSIGNED_POD)


def bind(new: Pod) -> ObjectChange:
    return add(new, ASSIGNED_POD)


def itself(old: Pod, new: Pod, action: ActionType) -> ObjectChange:
    return update(old, new, action, TARGET_POD)
