# SPDX-License-Identifier: Apache-2.0
"""HTTP endpoints of a node's kubelet: pods, logs and commands, and the permissions that all endpoints require.

Streaming endpoints (exec, attach, portForward) are handled by the listening server, not here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
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
from kubeloop.kubelet.runtime import Runtime
from kubeloop.kubelet.server.container_errors import log_error, stream_error
from kubeloop.kubelet.status.status_manager import StatusManager
from kubeloop.kubelet.sync.containers import find_container
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE

_JSON = "application/json"
NOT_FOUND = NodeResponse(404, b"404 page not found\n")
_NOT_ALLOWED = NodeResponse(405, b"405: Method Not Allowed")

EndpointHandler = Callable[[str, NodeRequest, list[str]], Awaitable[NodeResponse]]
_READ = ("GET", "HEAD")
# Other methods, by the first segments of a path. DELETE resets metrics, as upstream's does.
_METHODS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("run",): ("POST",),
    ("checkpoint",): ("POST",),
    ("metrics", "slis"): (*_READ, "DELETE"),
}
_VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Fine-grained subresources, which suffice besides the coarse ones.
_FINE = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
_COARSE = {"stats": "stats", "metrics": "metrics", "logs": "log", "checkpoint": "checkpoint", "statusz": "statusz"}


class KubeletEndpoints:
    """Endpoints of every node of an agent, by the first path segment."""

    def __init__(
        self,
        pods: Informer,
        runtime: Runtime,
        status_manager: StatusManager,
        clock: Clock,
        further: Mapping[str, EndpointHandler],
    ) -> None:
        self._pods = pods
        self._runtime = runtime
        self._clock = clock
        self._status_manager = status_manager
        self._handlers: dict[str, EndpointHandler] = {
            **further,
            "pods": self._pod_list,
            "runningpods": self._running_pods,
            "containerLogs": self._container_logs,
            "run": self._run,
            "logs": self._system_logs,
        }

    async def serve(self, node: str, request: NodeRequest) -> NodeResponse:
        """Return the response to a request."""
        first, *rest = request.path.strip("/").split("/")
        page = self._handlers.get(first)
        if page is None:
            return NOT_FOUND
        if request.method not in _METHODS.get((first, *rest), _METHODS.get((first,), _READ)):
            return _NOT_ALLOWED
        return await page(node, request, rest)

    def get_pod(self, node: str, namespace: str, name: str, uid: str = "") -> Pod | None:
        """Return a pod of a node, or None."""
        found: Pod | None = self._pods.get(namespace, name)
        if found is None or found.spec.node_name != node or uid not in ("", found.metadata.uid):
            return None
        return self._status_manager.with_reported_status(found)

    def _pods_on(self, node: str) -> list[Pod]:
        return pods_on(self._pods, node)

    # Endpoints.

    async def _pod_list(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        return _list(self._pods_on(node)) if not rest else NOT_FOUND

    async def _running_pods(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        return _list([pod for pod in self._pods_on(node) if pod.status.pod_ip and not is_terminal(pod)])

    async def _system_logs(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        """Return the listing of the log folder of the machine, which is empty."""
        if any(rest):
            return NOT_FOUND
        return NodeResponse(200, b"<!doctype html>\n<pre>\n</pre>\n", "text/html; charset=utf-8")

    async def _container_logs(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        if len(rest) != 3:
            return NOT_FOUND
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
            return NOT_FOUND
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


def pods_on(pods: Informer, node: str) -> list[Pod]:
    """Return the pods of a node, by namespace and name."""
    return sorted(pods.by_index(NODE, node), key=lambda pod: (pod.metadata.namespace, pod.metadata.name))


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
