# SPDX-License-Identifier: Apache-2.0
"""Tests of volume plugins: vectorized results equal a plain function per node."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from kubeloop.scheduler.plugins.volumes.node_volume_limits import NodeVolumeLimits
from kubeloop.scheduler.plugins.volumes.volume_binding import VolumeBinding
from kubeloop.scheduler.plugins.volumes.volume_restrictions import VolumeRestrictions
from kubeloop.scheduler.plugins.volumes.volume_zone import VolumeZone
from tests.unit.scheduler.random_clusters import RandomCluster

few = settings(max_examples=40, deadline=None)

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
CLAIMS = ("c0", "c1", "c2")
DRIVER = "disk.example.com"
GIB = 1024**3


@st.composite
def cluster_of(draw: st.DrawFn) -> RandomCluster:
    """Up to four nodes in zones, or in none."""
    env = RandomCluster()
    for number in range(draw(st.integers(1, 4))):
        labels = {"name": f"n{number}"}
        for label in (ZONE, OLD_ZONE):
            if draw(st.integers(0, 2)):
                labels[label] = draw(st.sampled_from(("east", "west")))
        env.add_node(from_plain({"metadata": {"name": f"n{number}", "labels": labels}}, Node))
    return env


def pod_with(name: str, *claims: str, volumes: list[dict[str, Any]] | None = None) -> Pod:
    used = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    spec = {"containers": [{"name": "c"}], "volumes": used + (volumes or [])}
    return from_plain({"metadata": {"name": name, "uid": name, "namespace": "default"}, "spec": spec}, Pod)


def used_by(pod: Pod) -> list[str]:
    return [one.persistent_volume_claim.claim_name for one in pod.spec.volumes if one.persistent_volume_claim]


def claim(name: str, size: int = 1, **spec: Any) -> PersistentVolumeClaim:
    done = {"pv.kubernetes.io/bind-completed": "yes"} if spec.get("volumeName") else {}
    wanted = {"resources": {"requests": {"storage": f"{size}Gi"}}, "accessModes": ["ReadWriteOnce"], **spec}
    meta = {"name": name, "namespace": "default", "uid": name, "annotations": done}
    return from_plain({"metadata": meta, "spec": wanted}, PersistentVolumeClaim)


def volume(name: str, size: int = 1, labels: dict[str, str] | None = None, **spec: Any) -> PersistentVolume:
    plain = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"capacity": {"storage": f"{size}Gi"}, "accessModes": ["ReadWriteOnce"], **spec},
        "status": {"phase": "Available"},
    }
    return from_plain(plain, PersistentVolume)


def storage_class(name: str, mode: str, provisioner: str = DRIVER, **more: Any) -> StorageClass:
    plain = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
    return from_plain(plain, StorageClass)


def refusals(env: RandomCluster, why_not: Any) -> dict[str, tuple[str, ...]]:
    found = {name: tuple(why_not(node)) for name, node in env.nodes.items()}
    return {name: reasons for name, reasons in found.items() if reasons}


# VolumeZone.


@few
@given(cluster_of(), st.data())
def test_volume_zone(env: RandomCluster, data: st.DataObject) -> None:
    zones = data.draw(st.lists(st.sampled_from(("east", "west", "east__west")), min_size=1, max_size=2))
    labels = [data.draw(st.sampled_from((ZONE, OLD_ZONE))) for _ in zones]
    for number, (zone, label) in enumerate(zip(zones, labels, strict=True)):
        env.add(volume(f"v{number}", labels={label: zone}), claim(f"c{number}", volumeName=f"v{number}"))
    pod = pod_with("pod", *(f"c{number}" for number in range(len(zones))))

    def why_not(node: Node) -> list[str]:
        own = node.metadata.labels
        if ZONE not in own and OLD_ZONE not in own:
            return []  # its location is unknown
        for zone, label in zip(zones, labels, strict=True):
            here = own.get(label, own.get(ZONE))
            if here not in zone.split("__"):
                return ["node(s) had no available volume zone"]
        return []

    assert env.refusals(env.plugin(VolumeZone), pod) == refusals(env, why_not)


# VolumeRestrictions.

_disks: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.sampled_from(
        (
            {"gcePersistentDisk": {"pdName": "a"}},
            {"gcePersistentDisk": {"pdName": "a", "readOnly": True}},
            {"awsElasticBlockStore": {"volumeID": "a", "readOnly": True}},
            {"iscsi": {"targetPortal": "p", "iqn": "a", "lun": 0}},
            {"iscsi": {"targetPortal": "q", "iqn": "a", "lun": 1, "readOnly": True}},
            {"rbd": {"monitors": ["m", "n"], "image": "i", "pool": "p"}},
            {"rbd": {"monitors": ["n"], "image": "i", "pool": "p", "readOnly": True}},
            {"rbd": {"monitors": ["o"], "image": "i", "pool": "p"}},
        )
    ),
    max_size=2,
)


def _named(disks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": f"d{number}", **one} for number, one in enumerate(disks)]


def _collide(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Two disks on one node: the same, of a kind that can't be shared, or not both only read."""
    (kind,) = one
    if kind not in other:
        return False
    mine, theirs = one[kind], other[kind]
    both_read = mine.get("readOnly", False) and theirs.get("readOnly", False)
    match kind:
        case "gcePersistentDisk":
            return mine["pdName"] == theirs["pdName"] and not both_read
        case "awsElasticBlockStore":
            return bool(mine["volumeID"] == theirs["volumeID"])
        case "iscsi":
            return mine["iqn"] == theirs["iqn"] and not both_read
        case _:
            return bool({*mine["monitors"]} & {*theirs["monitors"]}) and not both_read


@few
@given(cluster_of(), _disks, st.data())
def test_volume_restrictions(env: RandomCluster, disks: list[dict[str, Any]], data: st.DataObject) -> None:
    modes = {name: data.draw(st.sampled_from(("ReadWriteOnce", "ReadWriteOncePod"))) for name in CLAIMS}
    env.add(*(claim(name, accessModes=[mode]) for name, mode in modes.items()))
    theirs: dict[str, list[dict[str, Any]]] = {}
    used: set[str] = set()
    for number, name in enumerate(sorted(env.nodes)):
        theirs[name] = data.draw(_disks)
        claims = data.draw(st.sets(st.sampled_from(CLAIMS), max_size=1))
        used |= claims
        env.add_pod(pod_with(f"p{number}", *claims, volumes=_named(theirs[name])), name)
    own = sorted(data.draw(st.sets(st.sampled_from(CLAIMS), max_size=2)))
    pod = pod_with("pod", *own, volumes=_named(disks))
    alone = any(name in used and modes[name] == "ReadWriteOncePod" for name in own)

    def why_not(node: Node) -> list[str]:
        there = theirs[node.metadata.name]
        if any(_collide(one, other) for one in disks for other in there):
            return ["node(s) had no available disk"]
        told = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        return [f"{told}already in-use by another pod"] if alone else []

    assert env.refusals(env.plugin(VolumeRestrictions), pod) == refusals(env, why_not)


# NodeVolumeLimits.


@few
@given(cluster_of(), st.data())
def test_node_volume_limits(env: RandomCluster, data: st.DataObject) -> None:
    """Different volumes of a driver on a node, with those of the pod, are no more than it takes."""
    handles = {name: data.draw(st.sampled_from(("x", "y", "z"))) for name in CLAIMS}
    for name, handle in handles.items():
        csi = {"driver": DRIVER, "volumeHandle": handle}
        env.add(volume(f"v-{name}", csi=csi), claim(name, volumeName=f"v-{name}"))
    demanded = data.draw(st.booleans())
    env.add(from_plain({"metadata": {"name": DRIVER}, "spec": {"preventPodSchedulingIfMissing": demanded}}, CSIDriver))
    limits: dict[str, int | None] = {}
    attached: dict[str, set[str]] = {}
    for number, name in enumerate(sorted(env.nodes)):
        limits[name] = data.draw(st.sampled_from((None, 0, 1, 2)))
        if limits[name] is not None:
            drivers = [{"name": DRIVER, "nodeID": name, "allocatable": {"count": limits[name]}}]
            env.add(from_plain({"metadata": {"name": name}, "spec": {"drivers": drivers}}, CSINode))
        claims = data.draw(st.sets(st.sampled_from(CLAIMS), max_size=2))
        env.add_pod(pod_with(f"p{number}", *sorted(claims)), name)
        attached[name] = {handles[one] for one in claims}
        if data.draw(st.booleans()):  # of a deleted pod, not yet detached
            source = {"persistentVolumeName": "v-c0"}
            spec = {"attacher": DRIVER, "nodeName": name, "source": source}
            env.add(from_plain({"metadata": {"name": f"a{number}"}, "spec": spec}, VolumeAttachment))
            attached[name].add(handles["c0"])
    own = sorted(data.draw(st.sets(st.sampled_from(CLAIMS), max_size=2)))
    there = {name: {handles[one] for each in env.pods[name] for one in used_by(each)} for name in env.nodes}

    def why_not(node: Node) -> list[str]:
        name = node.metadata.name
        limit = limits[name]
        if own and demanded and limit is None:
            return [f"{DRIVER} CSI driver is not installed on the node"]
        more = {handles[one] for one in own} - there[name]
        if limit is None or not more or len(attached[name]) + len(more) <= limit:
            return []
        return ["node(s) exceed max volume count"]

    assert env.refusals(env.plugin(NodeVolumeLimits), pod_with("pod", *own)) == refusals(env, why_not)


# VolumeBinding.


def _only_on(names: list[str]) -> dict[str, Any]:
    expression = {"key": "name", "operator": "In", "values": names}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


@few
@given(cluster_of(), st.data())
def test_volume_binding(env: RandomCluster, data: st.DataObject) -> None:
    """A bound claim's volume is reached from there; for one that waits there is a volume, or one can be made there."""
    names = sorted(env.nodes)
    makes = data.draw(st.booleans())
    counts = makes and data.draw(st.booleans())
    env.add(storage_class("later", "WaitForFirstConsumer", DRIVER if makes else "kubernetes.io/no-provisioner"))
    env.add(from_plain({"metadata": {"name": DRIVER}, "spec": {"storageCapacity": counts}}, CSIDriver))
    room = {name: data.draw(st.sampled_from((0, 2, 4))) for name in names}
    for name in names:
        plain = {
            "metadata": {"name": f"room-{name}", "namespace": "default"},
            "storageClassName": "later",
            "capacity": f"{room[name]}Gi",
            "nodeTopology": {"matchLabels": {"name": name}},
        }
        env.add(from_plain(plain, CSIStorageCapacity))
    bound_on = data.draw(st.lists(st.sampled_from(names), unique=True))
    env.add(volume("bound", **_only_on(bound_on)), claim("c0", volumeName="bound"))
    free = {f"v{number}": (data.draw(st.integers(1, 3)), data.draw(st.lists(st.sampled_from(names), unique=True)))
            for number in range(data.draw(st.integers(0, 3)))}  # fmt: skip
    env.add(*(volume(name, size, storageClassName="later", **_only_on(on)) for name, (size, on) in free.items()))
    wanted = {name: data.draw(st.integers(1, 3)) for name in ("c1", "c2")}
    env.add(*(claim(name, size, storageClassName="later") for name, size in wanted.items()))
    own = sorted(data.draw(st.sets(st.sampled_from(CLAIMS))))

    def chosen(node: str) -> dict[str, str | None]:
        """Return the volume of each pending claim, smallest claims and volumes first."""
        found: dict[str, str | None] = {}
        for name in sorted((one for one in own if one in wanted), key=lambda one: wanted[one]):
            fits = [
                (size, order, one)
                for order, (one, (size, on)) in enumerate(free.items())
                if size >= wanted[name] and node in on and one not in found.values()
            ]
            found[name] = min(fits)[2] if fits else None
        return found

    def why_not(node: Node) -> list[str]:
        here, told = node.metadata.name, []
        if "c0" in own and here not in bound_on:
            told.append("node(s) didn't match PersistentVolume's node affinity")
        needy = [name for name, one in chosen(here).items() if one is None]
        if needy and not makes:
            told.append("node(s) didn't find available persistent volumes to bind")
        elif counts and any(wanted[name] > room[here] for name in needy):
            told.append("node(s) did not have enough free storage")
        return told

    def score(node: str) -> int:
        """The less of the storage would be in use, the better; of volumes, or else of what is published."""
        choice = chosen(node)
        static = {name: one for name, one in choice.items() if one is not None}
        if static:
            asked, there = sum(wanted[name] for name in static), sum(free[one][0] for one in static.values())
        elif choice and counts:
            asked, there = sum(wanted[name] for name in choice), room[node]
        else:
            return 0
        return 100 - (100 if not there or asked > there else asked * 100 // there)

    pod, plugin = pod_with("pod", *own), env.plugin(VolumeBinding)
    refused = refusals(env, why_not)
    assert env.refusals(plugin, pod) == refused
    fitting = [name for name in names if name not in refused]
    found = env.scores(plugin, pod, fitting)
    assert (found or dict.fromkeys(fitting, 0)) == {name: score(name) for name in fitting}
