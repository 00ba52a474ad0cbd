"""HTTP endpoints of a node's kubelet: pods, logs, usage, health, and the permissions that they require.

Streaming endpoints (exec, attach, portForward) are handled by the listening server, not here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kubelet_requests import NodeRequest, NodeResponse, PodLogOptions, TerminalSize
from kubeloop.api.pods.pod import is_terminal
from kubeloop.api.scalars.times import parse_time
from kubeloop.clock import Clock
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.runtime import Runtime
from kubeloop.kubelet.server.container_errors import log_error, stream_error
from kubeloop.kubelet.server.stats import StatsProvider
from kubeloop.kubelet.status.status_manager import StatusManager
from kubeloop.kubelet.sync.containers import find_container
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE

_JSON = "application/json"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_HEALTH = ("ping", "log", "syncloop")
_NOT_FOUND = NodeResponse(404, b"404 page not found\n")
_NOT_ALLOWED = NodeResponse(405, b"405: Method Not Allowed")

EndpointHandler = Callable[[str, NodeRequest, list[str]], Awaitable[NodeResponse]]
_VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Fine-grained subresources, which suffice besides the coarse ones.
_FINE = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
_COARSE = {"stats": "stats", "metrics": "metrics", "logs": "log", "checkpoint": "checkpoint", "statusz": "statusz"}


class KubeletEndpoints:
    """Endpoints of every node of an agent, by the first path segment."""

    def __init__(
        self, pods: Informer, served_nodes: ServedNodes, runtime: Runtime, status_manager: StatusManager, clock: Clock
    ) -> None:
        self._pods = pods
        self._served_nodes = served_nodes
        self._runtime = runtime
        self._clock = clock
        self._status_manager = status_manager
        self._statistics = StatsProvider(self._pods_on, runtime, clock)
        self._handlers: dict[str, EndpointHandler] = {
            "healthz": self._health,
            "pods": self._pod_list,
            "runningpods": self._running_pods,
            "metrics": self._metrics,
            "stats": self._stats,
            "configz": self._configz,
            "containerLogs": self._container_logs,
            "run": self._run,
            "logs": self._system_logs,
        }

    async def serve(self, node: str, request: NodeRequest) -> NodeResponse:
        """Return the response to a request; 503 for a node that is not reachable."""
        if self._served_nodes.get_reachable(node) is None:
            return NodeResponse(503, b"the node is not reachable\n")
        first, *rest = request.path.strip("/").split("/")
        page = self._handlers.get(first)
        if page is None:
            return _NOT_FOUND
        if request.method not in (("POST",) if first == "run" else ("GET", "HEAD")):
            return _NOT_ALLOWED
        return await page(node, request, rest)

    def get_pod(self, node: str, namespace: str, name: str, uid: str = "") -> Pod | None:
        """Return a pod of a node, or None."""
        found: Pod | None = self._pods.get(namespace, name)
        if found is None or found.spec.node_name != node or uid not in ("", found.metadata.uid):
            return None
        return self._status_manager.with_reported_status(found)

    def _pods_on(self, node: str) -> list[Pod]:
        return sorted(self._pods.by_index(NODE, node), key=lambda pod: (pod.metadata.namespace, pod.metadata.name))

    # Endpoints.

    async def _health(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        if rest and rest[0] not in _HEALTH:
            return _NOT_FOUND
        if "verbose" not in (name for name, _ in request.query):
            return NodeResponse(200, b"ok")
        said = "".join(f"[+]{check} ok\n" for check in rest or _HEALTH)
        return NodeResponse(200, f"{said}healthz check passed\n".encode())

    async def _pod_list(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        return _list(self._pods_on(node)) if not rest else _NOT_FOUND

    async def _running_pods(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        return _list([pod for pod in self._pods_on(node) if pod.status.pod_ip and not is_terminal(pod)])

    async def _metrics(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        match rest:
            case []:
                text = self._statistics.kubelet_metrics(node)
            case ["resource"]:
                text = self._statistics.resource_metrics(node)
            case ["cadvisor"]:
                text = self._statistics.container_metrics(node)
            case ["probes"]:
                text = ""
            case _:
                return _NOT_FOUND
        return NodeResponse(200, text.encode(), _METRICS)

    async def _stats(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        found = self._served_nodes.get(node)
        if rest != ["summary"] or found is None:
            return _NOT_FOUND
        return NodeResponse(200, msgspec.json.encode(self._statistics.summary(found)), _JSON)

    async def _configz(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        shown = {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "authentication": {"x509": {}, "webhook": {"enabled": True}, "anonymous": {"enabled": False}},
            "authorization": {"mode": "Webhook"},
            "nodeStatusUpdateFrequency": "10s",
            "nodeStatusReportFrequency": "5m0s",
            "nodeLeaseDurationSeconds": 40,
        }
        return NodeResponse(200, msgspec.json.encode({"kubeletconfig": shown}), _JSON)

    async def _system_logs(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        """Return the listing of the log folder of the machine, which is empty."""
        if any(rest):
            return _NOT_FOUND
        return NodeResponse(200, b"<!doctype html>\n<pre>\n</pre>\n", "text/html; charset=utf-8")

    async def _container_logs(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        if len(rest) != 3:
            return _NOT_FOUND
        namespace, name, container = rest
        pod = self.get_pod(node, namespace, name)
        if pod is None:
            return NodeResponse(404, f'pod "{name}" does not exist'.encode())
        if find_container(pod, container) is None:
            return NodeResponse(404, f'container "{container}" not found in pod "{name}"'.encode())
        try:
            options = _log_options(request, self._clock)
        except ValueError as error:
            return NodeResponse(400, msgspec.json.encode({"message": f"unable to decode the request: {error}"}), _JSON)
        why = log_error(pod, container, previous=options.previous)
        if why:
            return NodeResponse(400, why.encode())
        return NodeResponse(200, self._runtime.get_container_logs(pod, container, options), "text/plain")

    async def _run(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        if len(rest) not in (3, 4):
            return _NOT_FOUND
        pod = self.get_pod(node, rest[0], rest[1], rest[2] if len(rest) == 4 else "")
        if pod is None:
            return NodeResponse(404, b"pod does not exist")
        why = stream_error(pod, rest[-1])
        if why:
            return NodeResponse(500, why.encode())
        heard = _OutputCollector()
        code = await self._runtime.exec(pod, rest[-1], tuple(request.text("cmd").split(" ")), heard)
        said = b"".join(heard.output)
        return NodeResponse(500 if code else 200, said + (f"command exited with {code}".encode() if code else b""))


class _OutputCollector:
    """Streams of a command without input; collects its output."""

    def __init__(self) -> None:
        self.stdin = self.tty = False
        self.size: TerminalSize | None = None
        self.on_resize: Callable[[TerminalSize], None] | None = None
        self.output: list[bytes] = []

    async def read(self) -> bytes:
        """Return no input."""
        return b""

    async def write(self, data: bytes) -> None:
        """Collect output."""
        self.output.append(data)

    async def write_error(self, data: bytes) -> None:
        """Collect error output."""
        self.output.append(data)


def _list(pods: list[Pod]) -> NodeResponse:
    items: list[Any] = [codec.to_plain(pod) for pod in pods]
    for item in items:
        with suppress(KeyError):
            del item["kind"], item["apiVersion"]
    shown = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
    return NodeResponse(200, msgspec.json.encode(shown), _JSON)


def _log_options(request: NodeRequest, clock: Clock) -> PodLogOptions:
    def number(key: str) -> int | None:
        text = request.text(key)
        return int(text) if text else None

    seconds, moment = number("sinceSeconds"), request.text("sinceTime")
    since = parse_time(moment) if moment else None
    if seconds is not None:
        since = clock.now() - timedelta(seconds=seconds)
    return PodLogOptions(
        follow=request.text("follow") == "true",
        previous=request.text("previous") == "true",
        timestamps=request.text("timestamps") == "true",
        tail_lines=number("tailLines"),
        since=since,
        limit_bytes=number("limitBytes"),
    )


def verb_of(method: str) -> str:
    """Return the verb of an HTTP method; empty for an unknown one."""
    return _VERBS.get(method, "")


def subresources_of(path: str) -> tuple[str, ...]:
    """Return the node subresources of which one is required, the most specific first."""
    first = path.strip("/").split("/")[0]
    if first == "flagz":
        return ("configz",)
    coarse = _COARSE.get(first, "proxy")
    return (_FINE[first], coarse) if first in _FINE else (coarse,)
