"""Connect options of pods, services and nodes: read from the request and passed to admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.query import Query

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

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
        return ConnectOptions(kind=kind, path=query.text("path") or _proxy_path(ctx))
    if subresource == "portforward":
        ports = tuple(int(text) for text in query.every("ports") if text.isdigit())
        return ConnectOptions(kind="PodPortForwardOptions", ports=ports)
    return ConnectOptions(
        kind="PodExecOptions" if subresource == "exec" else "PodAttachOptions",
        stdin=query.flag("stdin"),
        stdout=query.flag("stdout"),
        stderr=query.flag("stderr"),
        tty=query.flag("tty"),
        container=query.text("container"),
        command=query.every("command") if subresource == "exec" else (),
    )


def _proxy_path(ctx: RequestContext) -> str:
    return ctx.request.path.partition(f"/{ctx.target.name}/proxy")[2]


async def admit_connection(ctx: RequestContext, server: ApiServer) -> None:
    """Run admission for a connection, and continue with the options as changed by it."""
    asked = connect_options(ctx)
    made = await server.mutations.admit_connect(ctx, asked)
    if made is not asked and ctx.target.subresource in ("exec", "attach"):
        ctx.query = _query_of(made)


def _query_of(options: ConnectOptions) -> Query:
    pairs: list[tuple[str, Any]] = [(flag, "true") for flag in _FLAGS if getattr(options, flag)]
    pairs += [("container", options.container)] if options.container else []
    pairs += [("command", word) for word in options.command]
    return Query(urlencode(pairs))
