# SPDX-License-Identifier: Apache-2.0
"""`kubeloop node`: shows and disturbs nodes of a running control plane through its API."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from kubeloop.api.errors import ApiError, NotFound, TooManyRequests
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.scalars.times import human_age
from kubeloop.cli.local_clusters.advice import explain_error
from kubeloop.cli.program.output import NAME, ResultPrinter, format_document, format_table
from kubeloop.client import Client
from kubeloop.client.config.server_config import load_config
from kubeloop.client.errors import ClientError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import Clock, SystemClock
from kubeloop.kubelet.eviction.thresholds import PRESSURE, PRESSURES
from kubeloop.kubelet.node_status.registration import KubeletEndpoint, NodeShape, new_node
from kubeloop.kubelet.node_status.served_nodes import (
    PARTITIONED,
    SERVED_NODE_ANNOTATION,
    SHUTTING_DOWN,
    STATE_ANNOTATION,
    STOPPED,
    is_simulated,
)
from kubeloop.kubelet.simulated.addresses import node_address_by_name
from kubeloop.kubelet.simulated.runtime import SimulatedRuntime

_RETRY_SECONDS = 1.0


class NodeCommandError(Exception):
    """Action that is impossible for a node; the message is one sentence for a user."""


def run_node(options: argparse.Namespace) -> int:
    """Run one action; returns the exit code."""
    try:
        return asyncio.run(_run(options))
    except (ApiError, ClientError, NodeCommandError, OSError) as error:
        print(f"kubeloop: {explain_error(error)}", file=sys.stderr)
        return 1


async def _run(options: argparse.Namespace) -> int:
    config = load_config(str(options.kubeconfig) if options.kubeconfig else None)
    clock = SystemClock()
    async with Client(HttpTransport(config, clock), user_agent="kubeloop") as client:
        printer = ResultPrinter(options.output)
        nodes = NodeCommands(client, clock, printer.report)
        if options.action == "list":
            shown = format_nodes(await nodes.list(), options.output, clock)
            print(shown, end="\n" if shown else "")
            return 0
        action = _action(nodes, options)
        try:
            for name in options.names:
                await action(name)
        finally:
            printer.close()
    return 0


def _action(nodes: NodeCommands, options: argparse.Namespace) -> Callable[[str], Awaitable[None]]:
    if options.action == "drain":
        return lambda name: nodes.drain(name, options.timeout)
    if options.action == "pressure":
        return lambda name: nodes.pressure(name, options.of)
    found: Callable[[str], Awaitable[None]] = getattr(nodes, options.action)
    return found


class NodeSummary(msgspec.Struct, frozen=True):
    """Node as `kubeloop node list` shows it."""

    name: str
    status: str
    state: str
    pods: int
    created: str


class NodeCommands:
    """Actions on nodes, each one or two writes. `report` gets kind and name of an object and what happened to it."""

    def __init__(self, client: Client, clock: Clock, report: Callable[[str, str, str], None]) -> None:
        self._client = client
        self._clock = clock
        self._report = report

    async def list(self) -> Sequence[NodeSummary]:
        """Return all nodes with their state and the number of their pods."""
        counts = Counter(pod.spec.node_name for pod in (await self._client.list(Pod)).items)
        return [
            NodeSummary(
                name, status_of(node), state_of(node), counts[name], str(node.metadata.creation_timestamp or "")
            )
            for node in (await self._client.list(Node)).items
            for name in (node.metadata.name,)
        ]

    async def stop(self, name: str) -> None:
        """Stop a node."""
        await self._annotate(name, STATE_ANNOTATION, STOPPED)
        self._report("node", name, "stopped")

    async def start(self, name: str) -> None:
        """Start a stopped node."""
        await self._annotate(name, STATE_ANNOTATION, None)
        self._report("node", name, "started")

    async def shutdown(self, name: str) -> None:
        """Shut a node down gracefully."""
        await self._annotate(name, STATE_ANNOTATION, SHUTTING_DOWN)
        self._report("node", name, "is shutting down")

    async def partition(self, name: str) -> None:
        """Disconnect a node from the API server."""
        await self._annotate(name, STATE_ANNOTATION, PARTITIONED)
        self._report("node", name, "partitioned")

    async def heal(self, name: str) -> None:
        """Reconnect a node."""
        await self._annotate(name, STATE_ANNOTATION, None)
        self._report("node", name, "healed")

    async def pressure(self, name: str, of: str) -> None:
        """Set or clear resource pressure."""
        wanted = [] if of == "none" else of.split(",")
        unknown = [one for one in wanted if one.partition(":")[0] not in PRESSURES]
        if unknown:
            raise NodeCommandError(f"unknown pressure {unknown[0]}; choose from {', '.join(PRESSURES)}, none")
        await self._annotate(name, PRESSURE, ",".join(wanted) or None)
        self._report("node", name, f"has pressure: {', '.join(wanted) or 'none'}")

    async def cordon(self, name: str) -> None:
        """Mark a node as unschedulable."""
        await self._client.patch(Node, name, {"spec": {"unschedulable": True}})
        self._report("node", name, "cordoned")

    async def uncordon(self, name: str) -> None:
        """Mark a node as schedulable."""
        await self._client.patch(Node, name, {"spec": {"unschedulable": None}})
        self._report("node", name, "uncordoned")

    async def add(self, name: str) -> None:
        """Create a node for the control plane's simulator, which serves every node with the annotation."""
        shape = NodeShape(annotations={SERVED_NODE_ANNOTATION: ""}, runtime=SimulatedRuntime.name)
        await self._client.create(new_node(name, KubeletEndpoint(node_address_by_name(name)), shape, self._clock.now()))
        self._report("node", name, "added")

    async def delete(self, name: str) -> None:
        """Delete a node."""
        await self._client.delete(Node, name)
        self._report("node", name, "deleted")

    async def drain(self, name: str, patience: float) -> None:
        """Evict all pods but those of daemon sets and mirror pods, and wait until they are gone."""
        await self.cordon(name)
        async with asyncio.timeout(patience):
            while pods := [pod for pod in await self._pods_of(name) if is_drainable(pod)]:
                for pod in pods:
                    if pod.metadata.deletion_timestamp is None:
                        await self._evict(pod)
                await asyncio.sleep(_RETRY_SECONDS)
        self._report("node", name, "drained")

    async def _pods_of(self, name: str) -> tuple[Pod, ...]:
        found = await self._client.list(Pod, fields=f"spec.nodeName={name}")
        return tuple(found.items)

    async def _evict(self, pod: Pod) -> None:
        try:
            await self._client.evict(pod.metadata.name, pod.metadata.namespace)
            self._report("pod", pod.metadata.name, "evicted")
        except TooManyRequests:  # rejected by a disruption budget
            return
        except NotFound:
            return

    async def _annotate(self, name: str, key: str, value: str | None) -> None:
        """Annotate a simulated node; raises for others, which would ignore it."""
        node = await self._client.get(Node, name)
        if not is_simulated(node):
            raise NodeCommandError(f"node {name} is not simulated")
        await self._client.patch(Node, name, {"metadata": {"annotations": {key: value}}})


def format_nodes(nodes: Sequence[NodeSummary], output: str, clock: Clock) -> str:
    """Format nodes as a table, as names or as a document."""
    if output == NAME:
        return "\n".join(f"node/{node.name}" for node in nodes)
    if output:
        return format_document({"nodes": nodes}, output)
    now = clock.now()
    rows = [(node.name, node.status, node.state, str(node.pods), human_age(node.created, now)) for node in nodes]
    return format_table([("NAME", "STATUS", "STATE", "PODS", "AGE"), *rows])


def status_of(node: Node) -> str:
    """Return the status column as kubectl shows it."""
    ready = find_condition(node.status.conditions, "Ready")
    words = ["Unknown" if ready is None else "Ready" if ready.status == "True" else "NotReady"]
    if node.spec.unschedulable:
        words.append("SchedulingDisabled")
    return ",".join(words)


def state_of(node: Node) -> str:
    """Return the simulated state of a node."""
    if not is_simulated(node):
        return "real"
    said = [node.metadata.annotations.get(STATE_ANNOTATION, "") or "running"]
    if pressure := node.metadata.annotations.get(PRESSURE, ""):
        said.append(f"{pressure} pressure")
    return ", ".join(said)


def is_drainable(pod: Pod) -> bool:
    """Return True if draining evicts a pod."""
    owner = controller_of(pod.metadata.owner_references)
    if owner is not None and owner.kind == "DaemonSet":
        return False
    return "kubernetes.io/config.mirror" not in pod.metadata.annotations
