# SPDX-License-Identifier: Apache-2.0
"""Calls to an etcd cluster with failover between members and retries."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import NamedTuple

from kubeloop.clock import Clock
from kubeloop.grpc.hpack import block_of
from kubeloop.grpc.http2 import Http2Connection, rejection_reason
from kubeloop.grpc.streams import (
    DEADLINE_EXCEEDED,
    OUT_OF_RANGE,
    UNAVAILABLE,
    UNKNOWN,
    RpcError,
    StreamingResponse,
)
from kubeloop.store.errors import StoreError
from kubeloop.store.etcd.config import EtcdConfig
from kubeloop.store.etcd.messages import EtcdWatchResponse, read_watch
from kubeloop.store.etcd.tls import CertificateRejected, tls_context

RANGE = "/etcdserverpb.KV/Range"
TXN = "/etcdserverpb.KV/Txn"
PUT = "/etcdserverpb.KV/Put"
REMOVE = "/etcdserverpb.KV/DeleteRange"
COMPACT = "/etcdserverpb.KV/Compact"
GRANT = "/etcdserverpb.Lease/LeaseGrant"
_WATCH = "/etcdserverpb.Watch/Watch"

ATTEMPT_SECONDS = 3.0  # a member cut off from the others does not answer: soon enough to ask another
GIVE_UP_SECONDS = 12.0  # an election takes one or two; a client should hear of more
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
# A member without a leader ends our watch instead of leaving it silent.
_NEEDS_LEADER = (("hasleader", "true"),)
_PASSING = (UNAVAILABLE, DEADLINE_EXCEEDED, UNKNOWN)


class Unavailable(StoreError):
    """Raised if no member responds; the request may have been executed."""


class EtcdError(StoreError):
    """Error response of etcd; `repeated` if an earlier attempt may have had an effect."""

    def __init__(self, message: str, compacted: bool, repeated: bool) -> None:
        super().__init__(message)
        self.compacted = compacted
        self.repeated = repeated


class PendingCall(NamedTuple):
    """Attempt under way: its member and its pending response."""

    member: int
    answer: asyncio.Future[bytes]


class EtcdClient:
    """Connections to the members, opened as needed; one member is used until it fails."""

    def __init__(self, config: EtcdConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._members = [_Member(endpoint) for endpoint in config.endpoints]
        self._preferred = 0
        self._is_open = False

    def open(self) -> None:
        """Prepare TLS and allow calls."""
        tls = tls_context(self._config) if self._config.tls else None
        for member in self._members:
            member.tls = tls
        self._is_open = True

    async def close(self) -> None:
        """Close the connections to all members."""
        self._is_open = False
        for member in self._members:
            await member.close()

    async def call(self, method: str, request: bytes) -> bytes:
        """Return the response to a request."""
        return (await self.call_with_history(method, request))[0]

    def begin(self, method: str, request: bytes) -> PendingCall | None:
        """Send a first attempt at once; None if a connection has to be opened first."""
        number = self._preferred
        member = self._members[number]
        link = member.connection
        if link is None or not link.is_usable or not self._is_open:
            return None
        return PendingCall(number, link.call(member.headers(method), request))

    async def call_with_history(
        self, method: str, request: bytes, begun: PendingCall | None = None
    ) -> tuple[bytes, bool]:
        """Return the response, and True if an earlier attempt may have had an effect; takes a begun attempt."""
        deadline = 0.0
        pause, repeated = _FIRST_PAUSE, False
        while True:
            asked = self._preferred
            try:
                if begun is not None:
                    (asked, answer), begun = begun, None
                    return await answer, repeated
                return await self._call_member(asked, method, request), repeated
            except RpcError as error:
                if error.code not in _PASSING:
                    raise _refused(error, repeated) from None
                self.avoid(asked)
                repeated = repeated or not error.is_not_executed
                now = self._clock.monotonic()
                deadline = deadline or now + GIVE_UP_SECONDS
                if now + pause > deadline:
                    raise Unavailable(self._to_store_error(error)) from None
            await asyncio.sleep(pause * (1 + self._clock.random().random()))
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _call_member(self, member: int, method: str, request: bytes) -> bytes:
        if not self._is_open:
            raise Unavailable("the connection to etcd is closed")
        asked = self._members[member]
        link = (
            asked.connection if asked.connection is not None and asked.connection.is_usable else await asked.connect()
        )
        return await link.call(asked.headers(method), request)

    def avoid(self, member: int) -> None:
        """Prefer the next member, unless that has already happened."""
        if self._preferred == member:
            self._preferred = (member + 1) % len(self._members)

    async def watch(self, request: bytes) -> AsyncGenerator[list[EtcdWatchResponse], None]:
        """Yield one member's watch responses until it or the connection fails: then `Unavailable`."""
        number = self._preferred
        member = self._members[number]
        stream: StreamingResponse | None = None
        try:
            link = (
                member.connection
                if member.connection is not None and member.connection.is_usable
                else await member.connect()
            )
            stream = link.call_stream(member.headers(_WATCH, _NEEDS_LEADER), request)
            # The first answer, which says that the watch is there, has to come soon.
            messages = await asyncio.wait_for(stream.read(), ATTEMPT_SECONDS)
            while True:
                yield [read_watch(message) for message in messages]
                messages = await stream.read()
        except (RpcError, TimeoutError) as error:
            self.avoid(number)
            raise Unavailable(self._to_store_error(error)) from None
        finally:
            if stream is not None:
                stream.cancel()

    def _to_store_error(self, error: RpcError | TimeoutError) -> str:
        details = error.details if isinstance(error, RpcError) else "no response within the timeout"
        return f"etcd at {', '.join(self._config.endpoints)} does not respond: {details}"


class _Member:
    """Member of the cluster and the connection to it, opened when needed."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._connecting: asyncio.Task[Http2Connection] | None = None
        self._headers: dict[str, bytes] = {}
        self.tls: ssl.SSLContext | None = None
        self.connection: Http2Connection | None = None

    def headers(self, method: str, more: tuple[tuple[str, str], ...] = ()) -> bytes:
        """Return the header block of a method, cached."""
        found = self._headers.get(method)
        if found is None:
            own = {
                ":method": "POST",
                ":scheme": "http" if self.tls is None else "https",
                ":path": method,
                ":authority": self._endpoint,
                "content-type": "application/grpc",
                "user-agent": "kubeloop",
                "te": "trailers",
            }
            found = self._headers[method] = block_of((*own.items(), *more))
        return found

    async def connect(self) -> Http2Connection:
        """Return a usable connection; concurrent callers share the attempt. `RpcError` if it fails."""
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        return await asyncio.shield(self._connecting)

    async def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait((self._connecting,))
        if self.connection is not None:
            self.connection.close()
            await self.connection.wait_closed()

    async def _connect(self) -> Http2Connection:
        host, _, port = self._endpoint.rpartition(":")
        host = host.strip("[]")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                _, link = await loop.create_connection(
                    lambda: Http2Connection(ATTEMPT_SECONDS),
                    host,
                    int(port),
                    ssl=self.tls,
                    server_hostname=host if self.tls else None,
                )
        except ssl.SSLError as error:
            if (why := rejection_reason(error)) is not None:
                raise CertificateRejected(f"etcd at {self._endpoint}: TLS handshake failed: {why}") from None
            raise RpcError(UNAVAILABLE, str(error), is_not_executed=True) from None
        except (OSError, TimeoutError) as error:
            why = getattr(error, "strerror", "") or str(error) or "no connection within the timeout"
            raise RpcError(UNAVAILABLE, why, is_not_executed=True) from None
        self.connection = link
        return link

    def _connected(self, task: asyncio.Task[Http2Connection]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # the exception is raised in the waiting callers


def _refused(error: RpcError, repeated: bool) -> EtcdError:
    compacted = error.code == OUT_OF_RANGE and "compacted" in error.details
    return EtcdError(f"etcd rejected the request: {error.details}", compacted, repeated)
