# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of service controllers: services, pods with addresses, slices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kubeloop.api.generated.core_v1 import Pod, Service
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointSlice
from kubeloop.api.scalars.times import format_time
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.context import Wire
from kubeloop.testing import Cluster, node, pod

NS = "default"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
ZONE = "topology.kubernetes.io/zone"


def start(cluster: Cluster, wire: Wire, **config: Any) -> Any:
    """Start a controller with given flags."""
    return cluster.start(wire(replace(cluster.context, config=ManagerConfig(**config))))


def service(name: str = "s", *, about: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A service of pods labelled `app: s`, at port 80."""
    spec = {"selector": {"app": "s"}, "ports": [{"port": 80}], **spec}
    found = {key: value for key, value in spec.items() if value is not None}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NS, **(about or {})},
        "spec": found,
    }


def change_service(cluster: Cluster, patch: dict[str, Any], name: str = "s") -> None:
    cluster.client.patch(Service, name, patch, NS)
    cluster.settle()


def add_node(cluster: Cluster, name: str = "n", zone: str = "", cpu: str = "4", ready: bool = True) -> None:
    made = node(name, cpu=cpu, ready=ready)
    labels = {**made.metadata.labels, **({ZONE: zone} if zone else {})}
    status = {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    cluster.add(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
    )  # fmt: skip


def add_pod(cluster: Cluster, name: str, *ips: str, on: str = "n", ready: bool | None = True, **fields: Any) -> Pod:
    """A pod that runs under these addresses; without any it has not begun."""
    fields.setdefault("labels", {"app": "s"})
    made: Pod = cluster.add(pod(name, NS, node=on, **fields))
    return set_pod(cluster, name, ips, ready) if ips else made


def set_pod(
    cluster: Cluster, name: str, ips: tuple[str, ...] = (), ready: bool | None = None, **status: Any
) -> Pod:  # fmt: skip
    """Set the status of a node."""
    if ips:
        status |= {"phase": "Running", "podIP": ips[0], "podIPs": [{"ip": one} for one in ips]}
    if ready is not None:
        now = format_time(cluster.clock.now())
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now}
        status["conditions"] = [condition]
    changed: Pod = cluster.client.patch(Pod, name, {"status": status}, NS, subresource="status")
    cluster.settle()
    return changed


def slices(cluster: Cluster, name: str = "s") -> list[EndpointSlice]:
    """All slices of a service, oldest first."""
    found = cluster.client.list(EndpointSlice, NS, labels=f"{SERVICE_NAME}={name}").items
    return sorted(found, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))


def only_slice(cluster: Cluster, name: str = "s") -> EndpointSlice:
    (found,) = slices(cluster, name)
    return found


def endpoints_in(*found: EndpointSlice) -> dict[str, Endpoint]:
    """Return endpoints by pod name, each exactly once."""
    listed = [one for each in found for one in each.endpoints or ()]
    names = [one.target_ref.name for one in listed if one.target_ref is not None]
    assert len(set(names)) == len(names) == len(listed)
    return dict(zip(names, listed, strict=True))


def states(endpoint: Endpoint) -> tuple[bool | None, bool | None, bool | None]:
    """Ready, serving, terminating."""
    said = endpoint.conditions
    return said.ready, said.serving, said.terminating
