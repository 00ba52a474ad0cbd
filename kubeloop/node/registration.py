"""What a node says of itself: its Node object, its conditions, its Lease. Pure."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from kubeloop import KUBERNETES_VERSION
from kubeloop.api.conditions import find_condition
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
)
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.times import format_micro_time, format_time
from kubeloop.api.wire import MicroTime, Quantity, Time

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
        spec=NodeSpec(),
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


def architecture() -> str:
    """This machine's, as labels name it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine or "amd64")


def conditions_of(
    pressures: Iterable[str], before: Iterable[NodeCondition], now: datetime, trouble: str = ""
) -> tuple[NodeCondition, ...]:
    """The four conditions that a kubelet reports; pressures are named by type, trouble is why it isn't ready."""
    under, old, moment = frozenset(pressures), tuple(before), Time(format_time(now))
    said = [
        (type, "True" if type in under else "False", *(bad if type in under else well))
        for type, well, bad in _PRESSURES
    ]
    well = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
    said.append(("Ready", "False", "KubeletNotReady", trouble) if trouble else well)
    made = []
    for type, status, reason, message in said:
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


def says_the_same(before: Iterable[NodeCondition], after: Iterable[NodeCondition]) -> bool:
    """Whether conditions differ in nothing but their heartbeat."""
    old = tuple(before)
    return all((found := find_condition(old, one.type)) is not None and _told(found) == _told(one) for one in after)


def _told(condition: NodeCondition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


def lease_of(node: Node, now: datetime) -> Lease:
    name = node.metadata.name
    owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
    return Lease(
        metadata=ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=(owner,)),
        spec=LeaseSpec(
            holder_identity=name, lease_duration_seconds=LEASE_SECONDS, renew_time=MicroTime(format_micro_time(now))
        ),
    )


def renewal(now: datetime) -> dict[str, Any]:
    """A patch of a lease."""
    return {"spec": {"renewTime": format_micro_time(now)}}


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
