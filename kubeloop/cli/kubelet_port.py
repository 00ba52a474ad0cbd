"""The HTTPS ports of simulated nodes: a kubelet's paths, for those to whom the API server says that they may.

request ─▶ certificate (verified by TLS), or token (TokenReview) ─▶ SubjectAccessReview of nodes/… ─▶ page or stream
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from kubeloop.api import errors
from kubeloop.api.generated.authentication_v1 import TokenReview, TokenReviewSpec
from kubeloop.api.generated.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubeloop.api.node_calls import NodeDialer
from kubeloop.apiserver.authentication import user_of_certificate
from kubeloop.apiserver.context import AUTHENTICATED, User
from kubeloop.apiserver.http import Limits, Request, Response, Server, serve
from kubeloop.apiserver.server import CannotStart, ServerConfig, tls_context
from kubeloop.apiserver.streaming.kubelet import FindPod, kubelet_response
from kubeloop.cli.controller_manager_access import Remembered
from kubeloop.cli.pki import Pki
from kubeloop.client import Client
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.node.authorization import subresources_of, verb_of

_TEXT = "text/plain; charset=utf-8"
_CLOSE_SECONDS = 1.0
# For how long the API server's answers hold, as the kubelet has it.
_TOKEN_SECONDS, _ALLOWED_SECONDS, _DENIED_SECONDS = 120.0, 300.0, 30.0

log = logging.getLogger(__name__)


class Denied(Exception):
    """Why a request isn't answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class KubeletAccess:
    """Who may ask nodes for what, decided by the API server."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._users: Remembered[str, User] = Remembered(clock)
        self._verdicts: Remembered[tuple[User, str, str, str], bool] = Remembered(clock)

    async def check(self, request: Request, node: str) -> None:
        """Raises `Denied`."""
        user = await self._user(request)
        verb, subresources = verb_of(request.method), subresources_of(unquote(request.path))
        for subresource in subresources:
            if await self._may(user, verb, node, subresource):
                return
        shown = " ".join(subresources)
        raise Denied(403, f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource(s)=[{shown}])\n")

    async def _user(self, request: Request) -> User:
        if request.peer_certificate is not None:
            named = user_of_certificate(request.peer_certificate)
            if named is not None:
                return named
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Denied(401, "Unauthorized")
        return await self._by_token(token.strip())

    async def _by_token(self, token: str) -> User:
        known = self._users.get(token)
        if known is not None:
            return known
        review: TokenReview = await self._client.create(TokenReview(spec=TokenReviewSpec(token=token)))
        if not review.status.authenticated:
            raise Denied(401, "Unauthorized")
        said = review.status.user
        groups = said.groups if AUTHENTICATED in said.groups else (*said.groups, AUTHENTICATED)
        user = User(said.username, tuple(groups), said.uid, tuple(sorted(said.extra.items())))
        self._users.put(token, user, _TOKEN_SECONDS)
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
        self._verdicts.put(key, allowed, _ALLOWED_SECONDS if allowed else _DENIED_SECONDS)
        return allowed


class KubeletPages:
    """Answers at one node's port."""

    def __init__(self, node: str, nodes: NodeDialer, find: FindPod, access: KubeletAccess) -> None:
        self._node = node
        self._nodes = nodes
        self._find = find
        self._access = access

    async def answer(self, request: Request) -> Response:
        await asyncio.sleep(0)  # from here on this is a task, which asking the API server needs
        try:
            await self._access.check(request, self._node)
            if not self._nodes.reaches(self._node):
                return Response(503, b"the node is switched off or cut off\n", _TEXT)
            return await kubelet_response(request, unquote(request.path), self._node, self._nodes, self._find)
        except Denied as denied:
            return Response(denied.status, denied.message.encode(), _TEXT)
        except errors.ApiError as error:
            return Response(error.code, error.message.encode(), _TEXT)
        except ClientError as error:
            log.warning("the API server could not be asked who may see %s: %s", request.path, error)
            return Response(500, b"the API server could not be asked whether this is allowed\n", _TEXT)


class KubeletPorts:
    """The ports of some nodes; made by `open_kubelet_ports`."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers

    async def close(self) -> None:
        await asyncio.gather(*(server.close(_CLOSE_SECONDS) for server in self._servers))


@dataclass(frozen=True, slots=True)
class KubeletPlan:
    """Where nodes listen, by name, and with which keys."""

    host: str
    ports: Mapping[str, int]
    pki: Pki


async def open_kubelet_ports(
    plan: KubeletPlan, nodes: NodeDialer, find: FindPod, client: Client, clock: Clock
) -> KubeletPorts:
    """Listen for each node; raises CannotStart."""
    pki = plan.pki
    config = ServerConfig(certificate=pki.serving_certificate, key=pki.serving_key, client_authorities=(pki.ca,))
    tls, access, servers = tls_context(config), KubeletAccess(client, clock), list[Server]()
    for name, port in plan.ports.items():
        pages = KubeletPages(name, nodes, find, access)
        try:
            servers.append(await serve(pages.answer, plan.host, port, tls, Limits(), clock))
        except OSError as error:
            await KubeletPorts(servers).close()
            raise CannotStart(f"node {name} cannot listen on {plan.host}:{port}: {error.strerror or error}") from None
    return KubeletPorts(servers)
