# SPDX-License-Identifier: Apache-2.0
"""Node object, conditions and Lease of a node. Pure."""

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
from kubeloop.api.kubelet_requests import SIMULATED_NODE_ANNOTATION
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.times import format_micro_time, format_time
from kubeloop.api.scalars.wire import MicroTime, Quantity, Time

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
KUBELET_PORT = 10250
# Features for the scheduler's NodeDeclaredFeatures plugin and the API server's NodeDeclaredFeatureValidator.
_FEATURES = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

# Type, reason and message without and with pressure.
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
    """Properties common to all nodes that are created together."""

    cpu: str = "8"
    memory: str = "32Gi"
    storage: str = "100Gi"
    pods: str = "110"
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    runtime: str = ""
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""
    info: NodeSystemInfo | None = None  # of a real machine
    resources: Mapping[str, str] = msgspec.field(default_factory=dict)  # further capacity, such as huge pages
    allocatable: Mapping[str, str] | None = None  # if it is not the whole capacity


class KubeletEndpoint(NamedTuple):
    """Address and port of a node's kubelet."""

    address: str
    port: int = KUBELET_PORT


def new_node(name: str, endpoint: KubeletEndpoint, shape: NodeShape, now: datetime) -> Node:
    """Return the Node that the agent registers."""
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
        **_quantities(shape.resources),
    }
    return Node(
        metadata=ObjectMeta(name=name, labels=labels, annotations=dict(shape.annotations)),
        spec=NodeSpec(taints=shape.taints, provider_id=shape.provider_id),
        status=NodeStatus(
            capacity=room,
            allocatable=room if shape.allocatable is None else {**room, **_quantities(shape.allocatable)},
            conditions=node_conditions((), (), now),
            addresses=(
                NodeAddress(type="InternalIP", address=endpoint.address),
                NodeAddress(type="Hostname", address=name),
            ),
            daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=endpoint.port)),
            node_info=shape.info or _info(name, shape.runtime),
            declared_features=_FEATURES,
        ),
    )


def correction_patches(found: Node, made: Node) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return patches of metadata and status that update an existing node to what its agent would register.

    Additions of others are kept.
    """
    said: dict[str, Any] = {}
    for part in ("labels", "annotations"):
        before, after = getattr(found.metadata, part), getattr(made.metadata, part)
        if changed := {key: value for key, value in after.items() if before.get(key) != value}:
            said[part] = changed
    before, after = codec.to_plain(found.status), codec.to_plain(made.status)
    is_simulated = SIMULATED_NODE_ANNOTATION in made.metadata.annotations  # its resources may have been edited
    resources = () if is_simulated else ("allocatable", "capacity")
    parts = ("addresses", "daemonEndpoints", "nodeInfo", *resources)
    status = {part: after[part] for part in parts if before.get(part) != after[part]}
    return {"metadata": said} if said else {}, {"status": status} if status else {}


def architecture() -> str:
    """Return the architecture of this machine, as in labels."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine or "amd64")


def node_conditions(
    pressures: Iterable[str], before: Iterable[NodeCondition], now: datetime, trouble: str = ""
) -> tuple[NodeCondition, ...]:
    """Return the four conditions that a kubelet reports.

    `pressures` are types of conditions that are true, `trouble` is the reason why the node is not ready.
    """
    old, moment = tuple(before), Time(format_time(now))
    made = []
    for type, (status, reason, message) in _condition_contents(frozenset(pressures), trouble).items():
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


def are_conditions_current(conditions: Iterable[NodeCondition], pressures: Iterable[str], trouble: str = "") -> bool:
    """Return True if the conditions already report these pressures and this trouble."""
    told = {one.type: (one.status, one.reason, one.message) for one in conditions}
    return _condition_contents(frozenset(pressures), trouble).items() <= told.items()


@lru_cache(maxsize=64)
def _condition_contents(pressures: frozenset[str], trouble: str) -> dict[str, tuple[str, str, str]]:
    """Return status, reason and message of each condition, by type."""
    said = {type: ("True", *bad) if type in pressures else ("False", *well) for type, well, bad in _PRESSURES}
    well = ("True", "KubeletReady", "kubelet is posting ready status")
    said["Ready"] = ("False", "KubeletNotReady", trouble) if trouble else well
    return said


def new_lease(node: Node, now: datetime, seconds: int = LEASE_SECONDS) -> Lease:
    """Return the Lease of a node."""
    name = node.metadata.name
    owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
    return Lease(
        metadata=ObjectMeta(name=name, namespace=LEASE_NAMESPACE, owner_references=(owner,)),
        spec=LeaseSpec(
            holder_identity=name, lease_duration_seconds=seconds, renew_time=MicroTime(format_micro_time(now))
        ),
    )


def _quantities(amounts: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: Quantity(amount) for name, amount in amounts.items()}


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
