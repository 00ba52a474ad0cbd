# SPDX-License-Identifier: Apache-2.0
"""Connect options of pods, services and nodes: read from the request and passed to admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from kubeloop.api import errors
from kubeloop.api.meta import field_path
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.query import Query

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

# Number of slashes in `/api/v1/namespaces/NAMESPACE/pods/NAME/proxy/`, and in `/api/v1/nodes/NAME/proxy/`.
_SLASHES_IN_NAMESPACE = 8
_SLASHES_OF_CLUSTER = 6
_MAX_PORT = 65_535
_LONGEST_PORT = len(str(_MAX_PORT))
_NO_PORT = "cannot convert to []int32: strconv.ParseUint: parsing {}: {}"
_FLAGS = ("stdin", "stdout", "stderr", "tty")


class ConnectOptions(msgspec.Struct, omit_defaults=True, rename="camel", kw_only=True):
    """Union of all connect options kinds (PodExecOptions, …), which have no metadata."""

    kind: str = msgspec.field(default_factory=str)
    api_version: str = msgspec.field(default_factory=lambda: "v1")
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""
    command: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    path: str = ""


def connect_options(ctx: RequestContext) -> ConnectOptions:
    """Return the connect options of a request."""
    query, subresource = ctx.query, ctx.target.subresource
    if subresource == "proxy":
        kind = f"{ctx.resource.kind}ProxyOptions"
        return ConnectOptions(kind=kind, path=query.text("path") or proxy_path(ctx))
    if subresource == "portforward":
        ports = (_port(text) for value in query.all_values("ports") for text in value.split(","))
        return ConnectOptions(kind="PodPortForwardOptions", ports=tuple(ports))
    return ConnectOptions(
        kind="PodExecOptions" if subresource == "exec" else "PodAttachOptions",
        stdin=query.flag("stdin"),
        stdout=query.flag("stdout"),
        stderr=query.flag("stderr"),
        tty=query.flag("tty"),
        container=query.text("container"),
        command=query.all_values("command") if subresource == "exec" else (),
    )


def proxy_path(ctx: RequestContext) -> str:
    """Return the part of the path after `/proxy`, as it was sent."""
    slashes = _SLASHES_IN_NAMESPACE if ctx.resource.namespaced else _SLASHES_OF_CLUSTER
    parts = ctx.request.path.split("/", slashes)
    return f"/{parts[slashes]}" if len(parts) > slashes else ""


def _port(text: str) -> int:
    """Parse a port as Go parses a 16-bit integer; raises BadRequest."""
    if not (text.isascii() and text.isdigit()):
        raise errors.bad_request(_NO_PORT.format(field_path.quote(text), "invalid syntax"))
    digits = text.lstrip("0") or "0"
    if len(digits) > _LONGEST_PORT or int(digits) > _MAX_PORT:
        raise errors.bad_request(_NO_PORT.format(field_path.quote(text), "value out of range"))
    return int(digits)


async def admit_connection(ctx: RequestContext, server: ApiServer) -> None:
    """Run admission for a connection, and continue with the options as changed by it."""
    asked = connect_options(ctx)
    made = await server.object_store.admit_connect(ctx, asked)
    if made is not asked and ctx.target.subresource in ("exec", "attach"):
        ctx.query = _query_of(made)


def _query_of(options: ConnectOptions) -> Query:
    pairs: list[tuple[str, Any]] = [(flag, "true") for flag in _FLAGS if getattr(options, flag)]
    pairs += [("container", options.container)] if options.container else []
    pairs += [("command", word) for word in options.command]
    return Query(urlencode(pairs))
