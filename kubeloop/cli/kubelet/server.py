# SPDX-License-Identifier: Apache-2.0
"""HTTPS ports of simulated nodes: a kubelet's endpoints, authorized by the API server.

request ─▶ certificate (verified by TLS), or token (TokenReview) ─▶ SubjectAccessReview of nodes/… ─▶ page or stream
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from kubeloop.api import errors
from kubeloop.api.generated.authentication_v1 import TokenReview, TokenReviewSpec
from kubeloop.api.generated.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubeloop.api.kubelet_requests import NodeDialer
from kubeloop.apiserver.authentication import user_of_certificate
from kubeloop.apiserver.authentication.bearer_token import bearer_token_of
from kubeloop.apiserver.request.context import ANONYMOUS, AUTHENTICATED, User
from kubeloop.apiserver.server import ApiServerConfig, StartupError, tls_context
from kubeloop.apiserver.streaming.kubelet import FindPod, kubelet_response
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.secure_port.authz import TTLCache
from kubeloop.client import Client
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.http import HttpLimits, HttpServer, Request, Response, serve
from kubeloop.kubelet.server.endpoints import subresources_of, verb_of

_TEXT = "text/plain; charset=utf-8"
_CLOSE_SECONDS = 1.0
# First segments of paths that enableDebuggingHandlers turns off, and of those of the read-only port.
_DEBUGGING = frozenset(("run", "exec", "attach", "portForward", "containerLogs", "runningpods", "logs", "debug"))
_READABLE = frozenset(("healthz", "pods", "stats", "metrics"))
_ListenAddress = tuple[str, int, ssl.SSLContext | None]

log = logging.getLogger(__name__)


class AccessDenied(Exception):
    """Reason for which a request is rejected."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class AccessRules(NamedTuple):
    """Authentication and authorization settings of a kubelet, with cache durations."""

    anonymous: bool = False
    webhook_authentication: bool = True
    always_allow: bool = False  # may do everything
    token_seconds: float = 120.0
    allowed_seconds: float = 300.0
    denied_seconds: float = 30.0
    has_debugging: bool = True  # logs, commands and forwarded ports are served


class KubeletAccess:
    """Authorizes requests to nodes through the API server."""

    def __init__(self, client: Client, clock: Clock, rules: AccessRules | None = None) -> None:
        self._client = client
        self._rules = rules or AccessRules()
        self.has_debugging = self._rules.has_debugging
        self._users: TTLCache[str, User] = TTLCache(clock)
        self._verdicts: TTLCache[tuple[User, str, str, str], bool] = TTLCache(clock)

    async def check(self, request: Request, node: str) -> None:
        """Raise `Denied` unless the request is allowed."""
        user = await self._user(request)
        if self._rules.always_allow:
            return
        verb, subresources = verb_of(request.method), subresources_of(unquote(request.path))
        for subresource in subresources:
            if await self._may(user, verb, node, subresource):
                return
        shown = " ".join(subresources)
        raise AccessDenied(
            403, f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource(s)=[{shown}])\n"
        )

    async def _user(self, request: Request) -> User:
        if request.peer_certificate is not None:
            named = user_of_certificate(request.peer_certificate)
            if named is not None:
                return named
        if token := bearer_token_of(request.headers.get("authorization", "")):
            if self._rules.webhook_authentication:
                return await self._by_token(token)
        elif self._rules.anonymous:
            return ANONYMOUS
        raise AccessDenied(401, "Unauthorized")

    async def _by_token(self, token: str) -> User:
        known = self._users.get(token)
        if known is not None:
            return known
        review: TokenReview = await self._client.create(TokenReview(spec=TokenReviewSpec(token=token)))
        if not review.status.authenticated:
            raise AccessDenied(401, "Unauthorized")
        said = review.status.user
        groups = said.groups if AUTHENTICATED in said.groups else (*said.groups, AUTHENTICATED)
        user = User(said.username, tuple(groups), said.uid, tuple(sorted(said.extra.items())))
        self._users.put(token, user, self._rules.token_seconds)
        return user

    async def _may(self, user: User, verb: str, node: str, subresource: str) -> bool:
        key = (user, verb, node, subresource)
        known = self._verdicts.get(key)
        if known is not None:
            return known
        asked = ResourceAttributes(verb=verb, version="v1", resource="nodes", subresource=subresource, name=node)
        spec = SubjectAccessReviewSpec(
            user=user.name, groups=user.groups, uid=user.uid, extra=dict(user.extra), resource_attributes=asked
        )
        review: SubjectAccessReview = await self._client.create(SubjectAccessReview(spec=spec))
        allowed = review.status.allowed
        rules = self._rules
        self._verdicts.put(key, allowed, rules.allowed_seconds if allowed else rules.denied_seconds)
        return allowed


class KubeletHandler:
    """Handler of one node's port."""

    def __init__(self, node: str, nodes: NodeDialer, find: FindPod, access: KubeletAccess) -> None:
        self._node = node
        self._nodes = nodes
        self._find = find
        self._access = access

    async def handle(self, request: Request) -> Response:
        """Authorize and answer a request."""
        try:
            await self._access.check(request, self._node)
            if not self._access.has_debugging and _first_segment(request) in _DEBUGGING:
                return Response(405, b"Debug endpoints are disabled.\n", _TEXT)
            if not self._nodes.can_reach(self._node):
                return Response(503, b"the node is switched off or cut off\n", _TEXT)
            return await kubelet_response(request, unquote(request.path), self._node, self._nodes, self._find)
        except AccessDenied as denied:
            return Response(denied.status, denied.message.encode(), _TEXT)
        except errors.ApiError as error:
            return Response(error.code, error.message.encode(), _TEXT)
        except ClientError as error:
            log.warning("unable to authorize the request for %s: %s", request.path, error)
            return Response(500, b"the API server could not be asked whether this is allowed\n", _TEXT)


class ReadOnlyHandler:
    """Handler of a node's port without authentication: health, pods, statistics and metrics."""

    def __init__(self, node: str, nodes: NodeDialer, find: FindPod) -> None:
        self._node = node
        self._nodes = nodes
        self._find = find

    async def handle(self, request: Request) -> Response:
        """Answer a request that reads; others are not found."""
        if request.method not in ("GET", "HEAD") or _first_segment(request) not in _READABLE:
            return Response(404, b"404 page not found\n", _TEXT)
        try:
            return await kubelet_response(request, unquote(request.path), self._node, self._nodes, self._find)
        except errors.ApiError as error:
            return Response(error.code, error.message.encode(), _TEXT)


def _first_segment(request: Request) -> str:
    return unquote(request.path).strip("/").partition("/")[0]


class KubeletPorts:
    """Ports of some nodes. They listen before the nodes register, since a node reports its port then."""

    def __init__(self) -> None:
        self._servers: list[HttpServer] = []
        self._pages: dict[str, KubeletHandler] = {}
        self._read_only: dict[str, ReadOnlyHandler | None] = {}  # by node; None before it is served
        self.numbers: dict[str, int] = {}

    async def listen(self, node: str, host: str, port: int, tls: ssl.SSLContext | None, clock: Clock) -> None:
        """Listen for a node. Raises CannotStart."""

        async def answer(request: Request) -> Response:
            pages = self._pages.get(node)
            return await pages.handle(request) if pages is not None else Response(503, b"not ready\n", _TEXT)

        self.numbers[node] = await self._open(node, answer, (host, port, tls), clock)

    async def listen_read_only(self, node: str, host: str, port: int, clock: Clock) -> None:
        """Listen without TLS and authentication for requests that read. Raises CannotStart."""
        self._read_only[node] = None

        async def answer(request: Request) -> Response:
            pages = self._read_only[node]
            return await pages.handle(request) if pages is not None else Response(503, b"not ready\n", _TEXT)

        await self._open(node, answer, (host, port, None), clock)

    async def _open(
        self, node: str, answer: Callable[[Request], Coroutine[Any, Any, Response]], where: _ListenAddress, clock: Clock
    ) -> int:
        host, port, tls = where
        try:
            server = await serve(answer, host, port, tls, HttpLimits(), clock)
        except OSError as error:
            raise StartupError(f"node {node} cannot listen on {host}:{port}: {error.strerror or error}") from None
        self._servers.append(server)
        return server.port

    def start_serving(self, nodes: NodeDialer, find: FindPod, access: KubeletAccess) -> None:
        """Start to answer requests."""
        self._pages = {name: KubeletHandler(name, nodes, find, access) for name in self.numbers}
        self._read_only = {name: ReadOnlyHandler(name, nodes, find) for name in self._read_only}

    async def close(self) -> None:
        """Close all ports."""
        await asyncio.gather(*(server.close(_CLOSE_SECONDS) for server in self._servers))


@dataclass(frozen=True, slots=True)
class KubeletPlan:
    """Ports of nodes by name, and their keys."""

    host: str
    ports: Mapping[str, int]
    pki: Pki


async def open_kubelet_ports(
    plan: KubeletPlan, nodes: NodeDialer, find: FindPod, client: Client, clock: Clock
) -> KubeletPorts:
    """Listen for each node; raises CannotStart."""
    pki = plan.pki
    config = ApiServerConfig(certificate=pki.serving_certificate, key=pki.serving_key, client_authorities=(pki.ca,))
    tls, ports = tls_context(config), KubeletPorts()
    try:
        for name, port in plan.ports.items():
            await ports.listen(name, plan.host, port, tls, clock)
    except StartupError:
        await ports.close()
        raise
    ports.start_serving(nodes, find, KubeletAccess(client, clock))
    return ports
