"""What nodes serve through the API server: logs, exec, attach, port forwarding and proxies.

Logs come from nodes that whoever wired the server lets it reach (`ApiServer.nodes`), and commands run there; over
WebSockets only. For all else these paths answer what is known without a node: whether there is such a pod and
container, whether it has a node, and that the node doesn't answer.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from kubeloop.api import errors, fields
from kubeloop.api.fields import FieldError, Path
from kubeloop.api.times import parse_time
from kubeloop.apiserver.context import Context
from kubeloop.apiserver.endpoints.subresources.connecting import admit_connection
from kubeloop.apiserver.endpoints.subresources.logs import log_options, log_response
from kubeloop.apiserver.endpoints.subresources.remote_command import command_response
from kubeloop.apiserver.http import Response
from kubeloop.apiserver.query import Query
from kubeloop.apiserver.rendering import warning_headers
from kubeloop.apiserver.storage import Registry

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

_ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
_KUBELET_PORT = 10250
_STREAMS = ("All", "Stderr", "Stdout")


async def pod_log(ctx: Context, server: ApiServer) -> Response:
    """GET what a container wrote. A pod without a node has written nothing."""
    found = log_option_errors(ctx.query)
    if found:
        raise errors.invalid("", "PodLogOptions", ctx.target.name, found)
    pod = _pod(ctx, server.registry, ctx.target.name)
    container = _choose_container(pod, ctx.query.text("container"))
    if not pod.spec.node_name:
        return Response(204, b"", "text/plain", warning_headers(ctx.warnings))
    if server.nodes is None or not server.nodes.reaches(pod.spec.node_name):
        raise _unreachable(server.registry, pod.spec.node_name)
    return await log_response(server.nodes.logs(pod, container, log_options(ctx)), ctx)


async def pod_stream(ctx: Context, server: ApiServer) -> Response:
    """exec, attach and portforward: a connection to a container."""
    await admit_connection(ctx, server)
    pod = _pod(ctx, server.registry, ctx.target.name)
    container = ""
    if ctx.target.subresource != "portforward":
        container = _choose_container(pod, ctx.query.text("container"))
    if not pod.spec.node_name:
        raise errors.bad_request(f"pod {pod.metadata.name} does not have a host assigned")
    nodes = server.nodes
    if ctx.target.subresource == "exec" and nodes is not None and nodes.reaches(pod.spec.node_name):
        return command_response(ctx, nodes, pod, container)
    raise _unreachable(server.registry, pod.spec.node_name)


async def proxy(ctx: Context, server: ApiServer) -> Response:
    """Any request on to a pod, a service or a node."""
    await admit_connection(ctx, server)
    what = ctx.resource.singular
    name, port = _name_and_port(ctx.target.name, what)
    match what:
        case "pod":
            raise _pod_proxy(_pod(ctx, server.registry, name), port)
        case "service":
            raise _service_proxy(ctx, server.registry, name, port)
        case _:
            raise _unreachable(server.registry, name)


def log_option_errors(query: Query) -> list[FieldError]:
    """What is wrong with the options of a request for logs."""
    found: list[FieldError] = []
    lines, limit, since = query.integer("tailLines"), query.integer("limitBytes"), query.integer("sinceSeconds")
    if lines is not None and lines < 0:
        found.append(fields.invalid(Path("tailLines"), lines, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        found.append(fields.invalid(Path("limitBytes"), limit, "must be greater than 0"))
    if since is not None and query.text("sinceTime"):
        # Upstream names no field here, and its empty path is shown like this.
        told = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        found.append(fields.forbidden(Path("[]"), told))
    elif since is not None and since < 1:
        found.append(fields.invalid(Path("sinceSeconds"), since, "must be greater than 0"))
    _check_since_time(query.text("sinceTime"))
    return found + _stream_errors(query.text("stream"), lines)


def _check_since_time(text: str) -> None:
    if text:
        try:
            parse_time(text)
        except ValueError as error:
            raise errors.bad_request(str(error)) from None


def _stream_errors(stream: str, lines: int | None) -> list[FieldError]:
    if not stream or stream == "All":
        return []
    if stream not in _STREAMS:
        return [fields.not_supported(Path("stream"), stream, _STREAMS)]
    if lines is not None:
        return [fields.forbidden(Path("[]"), "`tailLines` and specific `stream` are mutually exclusive for now")]
    return []


def _pod(ctx: Context, registry: Registry, name: str) -> Any:
    pod = registry.find("pods", ctx.target.namespace, name)
    if pod is None:
        raise errors.not_found("", "pods", name)
    return pod


def _choose_container(pod: Any, asked: str) -> str:
    """The container that is meant; one that isn't there is refused, and leaving it open among several."""
    spec, name = pod.spec, pod.metadata.name
    every = [one.name for one in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)]
    if asked:
        if asked not in every:
            raise errors.bad_request(f"container {asked} is not valid for pod {name}")
    elif len(spec.containers) != 1:
        raise errors.bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(every)}]"
        )
    return asked or str(spec.containers[0].name)


def _unreachable(registry: Registry, name: str) -> errors.ApiError:
    """Why a node can't be asked."""
    node = registry.find("nodes", "", name)
    if node is None:
        return errors.not_found("", "nodes", name)
    host = _address_of(node)
    if not host:
        return errors.service_unavailable(f"no preferred addresses found; known addresses: [] of node {name}")
    port = node.status.daemon_endpoints.kubelet_endpoint.port or _KUBELET_PORT
    return errors.service_unavailable(
        f"error dialing backend: dial tcp {_joined(host, port)}: the API server cannot reach nodes yet"
    )


def _address_of(node: Any) -> str:
    by_type = {address.type: address.address for address in reversed(node.status.addresses)}
    return next((by_type[kind] for kind in _ADDRESS_TYPES if kind in by_type), "")


def _name_and_port(text: str, what: str) -> tuple[str, str]:
    """From `name`, `name:port` or `scheme:name:port`."""
    parts = text.split(":")
    if len(parts) == 3:
        scheme, name, port = parts
    else:
        scheme, name, port = "", parts[0], parts[1] if len(parts) == 2 else ""
    if len(parts) > 3 or scheme not in ("", "http", "https") or not name:
        raise errors.bad_request(f"invalid {what} request {fields.quote(text)}")
    return name, port


def _pod_proxy(pod: Any, port: str) -> errors.ApiError:
    address = pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip
    if not _is_reachable_address(address):
        return errors.bad_request("address not allowed")
    if not port:
        declared = (one.container_port for container in pod.spec.containers for one in container.ports)
        port = str(next(declared, ""))
    where = _joined(address, port or "80")
    return errors.service_unavailable(f"error trying to reach service: dial tcp {where}: connect: no route to host")


def _service_proxy(ctx: Context, registry: Registry, name: str, port: str) -> errors.ApiError:
    if port.isdigit():
        service = registry.find("services", ctx.target.namespace, name)
        if service is None:
            return errors.not_found("", "services", name)
        if not any(one.port == int(port) for one in service.spec.ports):
            return errors.service_unavailable(f"no service port {port} found for service {fields.quote(name)}")
    return errors.service_unavailable(f"no endpoints available for service {fields.quote(name)}")


def _is_reachable_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


def _joined(host: str, port: object) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
