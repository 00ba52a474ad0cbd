# SPDX-License-Identifier: Apache-2.0
"""Addresses of kubelets, and the paths of their endpoints. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlencode

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.kubelet_requests import PodLogOptions, PodStreamRequest
from kubeloop.api.scalars.times import format_time
from kubeloop.apiserver.aggregator.endpoints import HostPort

DEFAULT_PORT = 10250
# kubeadm's order; upstream's default begins with host names, which few networks resolve.
ADDRESS_TYPES = ("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS")
_PATHS = {"exec": "exec", "attach": "attach", "portforward": "portForward"}


def address_of(node: Node, types: Sequence[str]) -> HostPort:
    """Return the first address of the most preferred type, with the port that the kubelet reports."""
    port = node.status.daemon_endpoints.kubelet_endpoint.port or DEFAULT_PORT
    for wanted in types:
        for one in node.status.addresses:
            if one.type == wanted:
                return HostPort(one.address, port)
    known = " ".join(f"{{{one.type} {one.address}}}" for one in node.status.addresses)
    raise ApiError(f"no preferred addresses found; known addresses: [{known}]")


def log_target(pod: Pod, container: str, options: PodLogOptions) -> str:
    """Return path and query of a log request."""
    said = {
        "follow": "true" if options.follow else "",
        "limitBytes": _number(options.limit_bytes),
        "previous": "true" if options.previous else "",
        "sinceTime": format_time(options.since) if options.since is not None else "",
        "stream": options.stream or "All",
        "tailLines": _number(options.tail_lines),
        "timestamps": "true" if options.timestamps else "",
    }
    query = urlencode({name: value for name, value in said.items() if value})
    return f"/containerLogs/{_words(pod)}/{quote(container)}?{query}"


def stream_target(pod: Pod, container: str, wanted: PodStreamRequest) -> str:
    """Return path and query of an exec, attach or portforward request."""
    path = f"/{_PATHS[wanted.operation]}/{_words(pod)}" + (f"/{quote(container)}" if container else "")
    flags = {"input": wanted.stdin, "output": wanted.stdout, "error": wanted.stderr, "tty": wanted.tty}
    pairs = [(name, "1") for name, is_on in flags.items() if is_on] + [("command", word) for word in wanted.command]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _words(pod: Pod) -> str:
    return f"{quote(pod.metadata.namespace)}/{quote(pod.metadata.name)}"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
