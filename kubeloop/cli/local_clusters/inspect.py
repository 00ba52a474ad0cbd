# SPDX-License-Identifier: Apache-2.0
"""Inspects running clusters through their APIs: nodes, pods, components and controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.meta.conditions import find_condition
from kubeloop.cli.local_clusters.network_status import PATH, NetworkComponentList
from kubeloop.cli.local_clusters.registry import ClusterRecord, ClusterRegistry
from kubeloop.client import Client
from kubeloop.client.config.server_config import ServerConfig, load_config
from kubeloop.client.errors import ClientError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import Clock

_ANSWER_SECONDS: Final = 5.0
_LOOPBACK: Final = "https://127.0.0.1:{port}"
_MANAGER: Final = "controller-manager"


class ComponentStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Component of a cluster with its port."""

    name: str
    port: int
    healthy: bool
    problem: str = ""  # reason, if the component tells one


class RealNodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Node that runs containers on this host."""

    name: str
    runtime: str  # version, or endpoint until it is known
    ready: bool


class ClusterStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """State of one cluster on this machine."""

    name: str
    status: str  # Ready, Starting, NotResponding or Stopped
    server: str = ""
    started: str = ""
    version: str = ""
    pid: int = 0
    kubeconfig: str = ""
    data_dir: str = ""
    log: str = ""
    nodes: int = 0
    ready_nodes: int = 0
    pods: int = 0
    ready_pods: int = 0
    components: tuple[ComponentStatus, ...] = ()
    controllers: int = 0
    healthy_controllers: int = 0
    real_node: RealNodeStatus | None = None


async def inspect_clusters(registry: ClusterRegistry, names: Sequence[str], clock: Clock) -> list[ClusterStatus]:
    """Return the state of the named clusters, or of all that run or have data."""
    records = {record.name: record for record in registry.running()}
    wanted = names or sorted({*records, *registry.stored()})
    return list(await asyncio.gather(*(_inspect(registry, one, records.get(one), clock) for one in wanted)))


async def _inspect(registry: ClusterRegistry, name: str, record: ClusterRecord | None, clock: Clock) -> ClusterStatus:
    if record is None:
        return ClusterStatus(name, "Stopped", data_dir=str(registry.data_dir(name)))
    known = ClusterStatus(
        name,
        "Starting",
        server=record.server,
        started=record.started,
        version=record.version,
        pid=record.pid,
        kubeconfig=record.kubeconfig,
        data_dir=record.data_dir,
        log=record.log,
    )
    if not record.is_ready:
        return known
    try:
        config = load_config(record.kubeconfig, record.name)
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await _with_content(known, record, config, clock)
    except (ApiError, ClientError, OSError, TimeoutError):
        return msgspec.structs.replace(known, status="NotResponding")


async def _with_content(
    known: ClusterStatus, record: ClusterRecord, config: ServerConfig, clock: Clock
) -> ClusterStatus:
    async with Client(HttpTransport(config, clock), user_agent="kubeloop") as client:
        nodes, pods = (await client.list(Node)).items, (await client.list(Pod)).items
    loops = await _loops(record, config, clock)
    components = [ComponentStatus("apiserver", _port_of(record.server), True)]
    for name, port in record.ports.items():
        components.append(ComponentStatus(name, port, await _is_healthy(config, port, clock)))
    if record.network_port:
        components += await _network_components(record.network_port, clock)
    return msgspec.structs.replace(
        known,
        status="Ready",
        nodes=len(nodes),
        ready_nodes=sum(map(_is_ready, nodes)),
        pods=len(pods),
        ready_pods=sum(map(_is_ready, pods)),
        components=tuple(components),
        controllers=len(loops),
        healthy_controllers=sum(bool(loop["healthy"]) for loop in loops),
        real_node=_real_node_of(record, nodes),
    )


def _real_node_of(record: ClusterRecord, nodes: Sequence[Node]) -> RealNodeStatus | None:
    if not record.real_node:
        return None
    found = next((one for one in nodes if one.metadata.name == record.real_node), None)
    if found is None:
        return RealNodeStatus(record.real_node, record.runtime, False)
    version = found.status.node_info.container_runtime_version
    return RealNodeStatus(record.real_node, version or record.runtime, _is_ready(found))


def _is_ready(obj: Any) -> bool:
    found = find_condition(obj.status.conditions, "Ready")
    return found is not None and found.status == "True"


async def _loops(record: ClusterRecord, config: ServerConfig, clock: Clock) -> list[Any]:
    """Return the status of the controllers; empty if the manager has no port or does not answer."""
    port = record.ports.get(_MANAGER, 0)
    found = await _document(config, port, "/loops", clock) if port else None
    return list(found["loops"]) if found is not None else []


async def _is_healthy(config: ServerConfig, port: int, clock: Clock) -> bool:
    transport = HttpTransport(replace(config, server=_LOOPBACK.format(port=port)), clock)
    try:
        with suppress(ApiError, ClientError, OSError):
            return b"".join([piece async for piece in transport.stream_path("/healthz", _ANSWER_SECONDS)]) == b"ok"
        return False
    finally:
        await transport.close()


async def _network_components(port: int, clock: Clock) -> list[ComponentStatus]:
    """Return the health of the real node's network; a process that does not answer has none."""
    transport = HttpTransport(ServerConfig(f"http://127.0.0.1:{port}"), clock)
    try:
        with suppress(ApiError, ClientError, OSError, msgspec.ValidationError):
            found = msgspec.convert(await transport.document(PATH), NetworkComponentList)
            return [ComponentStatus(one.name, one.port, not one.problem, one.problem) for one in found.components]
        return [ComponentStatus("node-network", port, False, "it does not answer")]
    finally:
        await transport.close()


async def _document(config: ServerConfig, port: int, path: str, clock: Clock) -> Any:
    transport = HttpTransport(replace(config, server=_LOOPBACK.format(port=port)), clock)
    try:
        with suppress(ApiError, ClientError, OSError):
            return await transport.document(path)
        return None
    finally:
        await transport.close()


def _port_of(url: str) -> int:
    return int(url.rpartition(":")[2])
