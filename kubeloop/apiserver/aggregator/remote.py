# SPDX-License-Identifier: Apache-2.0
"""Extension API server of one group version: resolves its address, connects and forwards requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from random import Random

from kubeloop.api import errors
from kubeloop.api.generated.apiregistration_v1 import APIService
from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.aggregator.availability import is_available, port_of
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable, dial
from kubeloop.apiserver.aggregator.endpoints import HostPort, ServiceUnresolvable, cluster_address, endpoint_address
from kubeloop.apiserver.aggregator.idle_connections import IdleConnectionPool
from kubeloop.apiserver.aggregator.proxy_identity import (
    AGGREGATOR,
    InvalidUserHeader,
    ProxyIdentity,
    context_for,
    plain_get,
    request_bytes,
)
from kubeloop.apiserver.aggregator.responses import plain_text, proxied_response, unreachable_response
from kubeloop.apiserver.aggregator.service_resolver import ServiceResolver
from kubeloop.apiserver.request.context import User
from kubeloop.http import Request, Response
from kubeloop.http.client import HttpClientConnection, ResponseHead

_DIAL_SECONDS = 30.0
_DISCOVERY_SECONDS = 5.0
_CHECK_SECONDS = 5.0
_REPEATABLE = ("GET", "HEAD")
_REDIRECTED = "the backend attempted to redirect this request, which is not permitted"


class RemoteAPIServer:
    """Client of one APIService's server; recreated when relevant fields of the APIService change."""

    def __init__(
        self,
        api: APIService,
        identity: ProxyIdentity | None,
        resolver: ServiceResolver,
        by_endpoint: bool,
        chance: Random,
    ) -> None:
        reference = api.spec.service
        assert reference is not None, "a local APIService has no remote"
        self.api = api
        self.group, self.version = api.spec.group, api.spec.version
        self.available = is_available(api)
        self._service = (reference.namespace, reference.name)
        self._server_name = f"{reference.name}.{reference.namespace}.svc"
        self._service_resolver = resolver
        self._by_endpoint = by_endpoint
        self._random = chance
        self._idle = IdleConnectionPool()
        self._identity = identity
        self._stamp = identity.stamp() if identity is not None else ()
        self.configuration_error = ""
        self._context: ssl.SSLContext | None = None
        self._load_context()

    def _load_context(self) -> None:
        """Read the files of the proxy client certificate; keep the context in use if they are invalid."""
        try:
            self._context, self.configuration_error = context_for(self.api, self._identity), ""
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            if self._context is None:
                self.configuration_error = f"unable to use the TLS settings of {self.api.metadata.name}: {error}"

    def reload_identity(self) -> None:
        """Use a changed proxy client certificate for connections from now on."""
        stamp = self._identity.stamp() if self._identity is not None else ()
        if stamp and stamp != self._stamp:
            self._stamp = stamp
            self._load_context()
            self._idle.close()
            self._idle = IdleConnectionPool()

    @property
    def root(self) -> str:
        """Path that the server must serve."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def resolve(self) -> HostPort:
        """Return the address to connect to; raises `ServiceUnresolvable`."""
        namespace, name = self._service
        service = self._service_resolver.service(namespace, name)
        if service is None:
            raise ServiceUnresolvable(f'service "{name}" not found')
        port = port_of(self.api)
        if not self._by_endpoint:
            return cluster_address(service, port)
        return endpoint_address(service, self._service_resolver.slices(namespace, name), port, self._random)

    async def forward(self, request: Request, user: User, audit_id: str = "", seconds: float | None = None) -> Response:
        """Forward a client's request and return the response; failures become responses, too.

        `seconds` limits the time until the response begins; None does not. Raises Timeout.
        """
        if not self.available:
            return plain_text(503, "service unavailable")
        self.reload_identity()
        if self.configuration_error:
            return plain_text(500, self.configuration_error)
        try:
            address = self.resolve()
        except ServiceUnresolvable:
            return plain_text(503, "service unavailable")
        is_discovery = request.path.strip("/").count("/") == 2
        try:
            async with asyncio.timeout(_DISCOVERY_SECONDS if is_discovery else seconds):
                connection, head = await self._exchange(address, request, user, audit_id)
                try:
                    if refusal := _refusal(request, head):
                        connection.abort()
                        return refusal
                    idle = self._idle
                    return await proxied_response(connection, head, lambda done: idle.put(address, done))
                except BaseException:
                    connection.abort()
                    raise
        except TimeoutError:
            if is_discovery:
                return plain_text(503, "context deadline exceeded")
            raise errors.timeout("request did not complete within the allotted timeout") from None
        except RemoteUnreachable as error:
            return unreachable_response(error)
        except InvalidUserHeader as error:
            return plain_text(503, str(error))

    async def check(self) -> None:
        """Check that the server answers; raises `RemoteUnreachable` with the reason."""
        try:
            address = self.resolve()
        except ServiceUnresolvable as error:
            raise RemoteUnreachable(str(error)) from None
        url = f"https://{address}{self.root}"
        self.reload_identity()
        if self.configuration_error:
            raise RemoteUnreachable(self.configuration_error)
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                status, _ = await self._read_response(address, plain_get(self.root), AGGREGATOR)
        except TimeoutError:
            late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise RemoteUnreachable(f'failing or missing response from {url}: Get "{url}": {late}') from None
        except RemoteUnreachable as error:
            raise RemoteUnreachable(f'failing or missing response from {url}: Get "{url}": {error}') from None
        if not 200 <= status < 300:
            raise RemoteUnreachable(f"failing or missing response from {url}: bad status from {url}: {status}")

    async def document(self, request: Request) -> tuple[ResponseHead, bytes]:
        """Return a document requested by this server itself; raises `RemoteUnreachable`."""
        try:
            async with asyncio.timeout(_DISCOVERY_SECONDS):
                connection, head = await self._exchange(self.resolve(), request, AGGREGATOR, "")
                try:
                    return head, await connection.read_body()
                finally:
                    connection.abort()
        except (TimeoutError, ServiceUnresolvable) as error:
            raise RemoteUnreachable(str(error) or "context deadline exceeded") from None

    def close(self) -> None:
        """Close the idle connections."""
        self._idle.close()

    async def _read_response(self, address: HostPort, request: Request, user: User) -> tuple[int, bytes]:
        connection, head = await self._exchange(address, request, user, "")
        try:
            body = await connection.read_body()
        finally:
            connection.abort()
        return head.status, body

    async def _exchange(
        self, address: HostPort, request: Request, user: User, audit_id: str
    ) -> tuple[HttpClientConnection, ResponseHead]:
        sent, has_body = request_bytes(request, str(address), user, audit_id), request.method != "HEAD"
        reused = self._idle.take(address) if not request.upgrade else None
        if reused is not None:
            try:
                return reused, await _send(reused, sent, has_body)
            except RemoteUnreachable:
                # The server may have closed the idle connection meanwhile; a request without side effects is repeated.
                if request.method not in _REPEATABLE:
                    raise
        assert self._context is not None, "an unusable remote is not called"
        connection = await dial(*address, self._context, self._server_name, _DIAL_SECONDS)
        return connection, await _send(connection, sent, has_body)


def _refusal(request: Request, head: ResponseHead) -> Response | None:
    """Return the response instead of a redirect, or of a change of protocol that was not requested or not made."""
    if 300 <= head.status <= 399 and head.headers.get("location"):
        return plain_text(502, _REDIRECTED)
    if head.status == 101 and not request.upgrade:
        protocol = quote(head.headers.get("upgrade", ""))
        return plain_text(503, f'backend tried to switch protocol {protocol} when "" was requested')
    if request.upgrade and head.status != 101 and head.status < 400:
        return plain_text(503, f"invalid upgrade response: status code {head.status}")
    return None


async def _send(connection: HttpClientConnection, sent: bytes, has_body: bool) -> ResponseHead:
    try:
        return await connection.exchange(sent, has_body=has_body)
    except BaseException:
        connection.abort()
        raise


MakeRemote = Callable[[APIService], RemoteAPIServer]
