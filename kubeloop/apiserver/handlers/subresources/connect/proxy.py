# SPDX-License-Identifier: Apache-2.0
"""proxy: forwards requests to a pod, service or node (`…/proxy/…`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from kubeloop.api import errors
from kubeloop.api.kubelet_requests import (
    SIMULATED_NODE_ANNOTATION,
    ForwardFailed,
    NodeConnectionRefused,
    PodStreamRequest,
    PortConnection,
)
from kubeloop.api.meta import field_path
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.aggregator.endpoints import HostPort, ready_addresses
from kubeloop.apiserver.aggregator.proxy_identity import end_to_end_headers
from kubeloop.apiserver.aggregator.service_resolver import ServiceResolver
from kubeloop.apiserver.handlers.subresources.connect.connect_options import admit_connection, proxy_path
from kubeloop.apiserver.handlers.subresources.connect.node_connection import (
    join_host_port,
    kubelet_dialer,
    local_dialer,
    pod_dialer,
)
from kubeloop.apiserver.handlers.subresources.connect.pod_connect import get_pod
from kubeloop.apiserver.kubelet_client.dialer import NodePort, dial_pod
from kubeloop.apiserver.kubelet_client.kubelet_address import ADDRESS_TYPES, address_of
from kubeloop.apiserver.kubelet_client.proxyable_address import require_global_unicast
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.streaming.exchange import send_request
from kubeloop.apiserver.streaming.kubelet import kubelet_response
from kubeloop.http import Request, Response

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

_LONGEST_PORT = 18  # digits that a 64-bit integer always has room for
# Headers that describe the forwarded request itself.
_DROPPED_HEADERS = frozenset({"host", "content-length"})


async def proxy(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle a proxy request: forward it to the target and return its response."""
    await admit_connection(ctx, server)
    server.authenticator.clear_credentials(ctx.request)
    what = ctx.resource.singular
    name, port = _split_target(ctx.target.name, what)
    match what:
        case "pod":
            return await _to_pod(ctx, server, get_pod(ctx, server.registry, name), port.number)
        case "service":
            return await _to_service(ctx, server, name, port.number)
        case _:
            return await _to_node(ctx, server, name, port)


async def _to_node(ctx: RequestContext, server: ApiServer, name: str, port: NodePort) -> Response:
    nodes = local_dialer(server, name)
    if nodes is None:
        return await kubelet_dialer(server, name).proxy(ctx.request, name, proxy_path(ctx), port)
    node = server.registry.get_object("nodes", "", name)
    if port.number and node is not None:
        kubelet = address_of(node, ADDRESS_TYPES)
        if port.number != str(kubelet.port):
            where = f"dial tcp {join_host_port(kubelet.host, port.number)}: connect: connection refused"
            raise errors.service_unavailable(f"error trying to reach service: {where}")
    find = partial(server.registry.get_object, "pods")
    return await kubelet_response(ctx.request, unquote(proxy_path(ctx)), name, nodes, find)


async def _to_pod(ctx: RequestContext, server: ApiServer, pod: Any, port: str) -> Response:
    address = pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip
    require_global_unicast(address)
    if not port:
        declared = (one.container_port for container in pod.spec.containers for one in container.ports)
        port = str(next(declared, ""))
    where = join_host_port(address, port or "80")
    if not _is_port(port or "80"):
        raise errors.bad_request(f"invalid pod request {field_path.quote(ctx.target.name)}")
    to_port = _dialer_of(server, pod, HostPort(address, int(port or "80")))
    try:
        return await send_request(_forwarded_request(ctx), where, to_port)
    except (ForwardFailed, NodeConnectionRefused):
        refused = f"error trying to reach service: dial tcp {where}: connect: connection refused"
        raise errors.service_unavailable(refused) from None
    except RemoteUnreachable as error:
        raise errors.service_unavailable(f"error trying to reach service: {error}") from None


def _dialer_of(server: ApiServer, pod: Any, address: HostPort) -> Callable[[PortConnection], Awaitable[None]]:
    """Return the dialer of a pod: directly over the pod network, or through its node if the pod is simulated."""
    name = pod.spec.node_name
    node = server.registry.get_object("nodes", "", name)
    is_simulated = node is not None and SIMULATED_NODE_ANNOTATION in node.metadata.annotations
    if server.nodes.kubelets is not None and not is_simulated:
        return partial(dial_pod, address)

    async def through_node(connection: PortConnection) -> None:
        try:
            nodes = pod_dialer(server, name)
        except errors.ApiError:
            raise RemoteUnreachable(f"dial tcp {address}: connect: no route to host") from None
        try:
            connections = await nodes.open(pod, "", PodStreamRequest("portforward"))
        except errors.ApiError as error:
            raise RemoteUnreachable(error.message) from None
        try:
            await connections.forward(pod, address.port, connection)
        finally:
            connections.close()

    return through_node


async def _to_service(ctx: RequestContext, server: ApiServer, name: str, port: str) -> Response:
    namespace, resolver = ctx.target.namespace, ServiceResolver(server.registry)
    if _is_port(port):
        service = resolver.service(namespace, name)
        if service is None:
            raise errors.not_found("", "services", name)
        named = next((one.name or "" for one in service.spec.ports if one.port == int(port)), None)
        if named is None:
            raise errors.service_unavailable(f"no service port {port} found for service {field_path.quote(name)}")
        port = named
    pods = {one.status.pod_ip: one for one in server.registry.list_objects("pods", namespace) if one.status.pod_ip}
    found = [
        address
        for one in resolver.slices(namespace, name)
        for address in ready_addresses(one, port)
        if address.host in pods
    ]
    if not found:
        raise errors.service_unavailable(f"no endpoints available for service {field_path.quote(name)}")
    chosen = server.clock.random().choice(found)
    return await _to_pod(ctx, server, pods[chosen.host], str(chosen.port))


def _forwarded_request(ctx: RequestContext) -> Request:
    """Return the request as the target receives it."""
    request = ctx.request
    headers = {name: value for name, value in end_to_end_headers(request) if name not in _DROPPED_HEADERS}
    sent = Request(request.method, proxy_path(ctx) or "/", request.query, headers)
    sent.body = request.body
    return sent


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_PORT


def _split_target(text: str, what: str) -> tuple[str, NodePort]:
    """Parse `name`, `name:port` or `scheme:name:port`."""
    parts = text.split(":")
    if len(parts) == 3:
        scheme, name, port = parts
    else:
        scheme, name, port = "", parts[0], parts[1] if len(parts) == 2 else ""
    if len(parts) > 3 or scheme not in ("", "http", "https") or not name:
        raise errors.bad_request(f"invalid {what} request {field_path.quote(text)}")
    return name, NodePort(port, scheme)
