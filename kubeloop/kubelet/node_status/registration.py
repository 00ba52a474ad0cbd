"""What a node says of itself: its Node object, its conditions, its Lease. Pure."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from kubeloop import KUBERNETES_VERSION
from kubeloop.api import codec
from kubeloop.api.generated.coordination_v1 import Lease, LeaseSpec
from kubeloop.api.generated.core_v1 import (
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.times import format_micro_time, format_time
from kubeloop.api.scalars.wire import MicroTime, Quantity, Time

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
KUBELET_PORT = 10250
# What a pod may need that not every node can do; the scheduler looks for it.
_FEATURES = ("RestartAllContainersOnContainerExits",)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

# Type, what it says when all is well, and when there is pressure.
_PRESSURES = (
    (
        "MemoryPressure",
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    ),
    (
        "DiskPressure",
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    ),
    (
        "PIDPressure",
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ),
)


class NodeShape(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all nodes that are made together."""

    cpu: str = "8"
    memory: str = "32Gi"
    storage: str = "100Gi"
    pods: str = "110"
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    runtime: str = ""
    taints: tuple[Taint, ...] = ()


class Endpoint(NamedTuple):
    """Where a node is found."""

    address: str
    port: int = KUBELET_PORT


def node_object(name: str, endpoint: Endpoint, shape: NodeShape, now: datetime) -> Node:
    """A node as it registers itself."""
    system = architecture()
    labels = {
        "beta.kubernetes.io/arch": system,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": system,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        **shape.labels,
    }
    room = {
        "cpu": Quantity(shape.cpu),
        "ephemeral-storage": Quantity(shape.storage),
        "memory": Quantity(shape.memory),
        "pods": Quantity(shape.pods),
    }
    return Node(
        metadata=ObjectMeta(name=name, labels=labels, annotations=dict(shape.annotations)),
        spec=NodeSpec(taints=shape.taints),
        status=NodeStatus(
            capacity=room,
            allocatable=room,
            conditions=conditions_of((), (), now),
            addresses=(
                NodeAddress(type="InternalIP", address=endpoint.address),
                NodeAddress(type="Hostname", address=name),
            ),
            daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=endpoint.port)),
            node_info=_info(name, shape.runtime),
            declared_features=_FEATURES,
        ),
    )


def corrections(found: Node, made: Node) -> tuple[dict[str, Any], dict[str, Any]]:
    """Patches of a node's metadata and status, so that one that was there before tells what its agent would register.

    What others have added to it stays.
    """
    said: dict[str, Any] = {}
    for part in ("labels", "annotations"):
        before, after = getattr(found.metadata, part), getattr(made.metadata, part)
        if changed := {key: value for key, value in after.items() if before.get(key) != value}:
            said[part] = changed
    before, after = codec.to_plain(found.status), codec.to_plain(made.status)
    parts = ("addresses", "daemonEndpoints", "nodeInfo")
    status = {part: after[part] for part in parts if before.get(part) != after[part]}
    return {"metadata": said} if said else {}, {"status": status} if status else {}


def architecture() -> str:
    """This machine's, as labels name it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine or "amd64")


def conditions_of(
    pressures: Iterable[str], before: Iterable[NodeCondition], now: datetime, trouble: str = ""
) -> tuple[NodeCondition, ...]:
    """The four conditions that a kubelet reports; pressures are named by type, trouble is why it isn't ready."""
    old, moment = tuple(before), Time(format_time(now))
    made = []
    for type, (status, reason, message) in _said(frozenset(pressures), trouble).items():
        same = find_condition(old, type)
        since = same.last_transition_time if same is not None and same.status == status else None
        made.append(
            NodeCondition(
                type=type,
                status=status,
                reason=reason,
                message=message,
                last_heartbeat_time=moment,
                last_transition_time=since or moment,
            )
        )
    return tuple(made)


def is_said(conditions: Iterable[NodeCondition], pressures: Iterable[str], trouble: str = "") -> bool:
    """Whether conditions tell of pressures and trouble as they are."""
    told = {one.type: (one.status, one.reason, one.message) for one in conditions}
    return _said(frozenset(pressures), trouble).items() <= told.items()


@lru_cache(maxsize=64)
def _said(pressures: frozenset[str], trouble: str) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of each condition, by type."""
    said = {type: ("True", *bad) if type in pressures else ("False", *well) for type, well, bad in _PRESSURES}
    well = ("True", "KubeletReady", "kubelet is posting ready status")
    said["Ready"] = ("False", "KubeletNotReady", trouble) if trouble else well
    return said


def lease_of(node: Node, now: datetime) -> Lease:
    name = node.metadata.name
    owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
    return Lease(
        metadata=ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=(owner,)),
        spec=LeaseSpec(
            holder_identity=name, lease_duration_seconds=LEASE_SECONDS, renew_time=MicroTime(format_micro_time(now))
        ),
    )


def _info(name: str, runtime: str) -> NodeSystemInfo:
    return NodeSystemInfo(
        architecture=architecture(),
        boot_id=name,
        container_runtime_version=runtime,
        kernel_version="simulated",
        kube_proxy_version="",
        kubelet_version=f"v{KUBERNETES_VERSION}",
        machine_id=name,
        operating_system="linux",
        os_image="kubeloop",
        system_uuid=name,
    )
