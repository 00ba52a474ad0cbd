"""Calls to an etcd cluster: to any member that answers, again while that makes sense, and told clearly when not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import grpc
import grpc.aio

from kubeloop.clock import Clock
from kubeloop.store.errors import StoreError
from kubeloop.store.etcd.config import EtcdConfig
from kubeloop.store.etcd.messages import WatchAnswer, read_watch

RANGE = "/etcdserverpb.KV/Range"
TXN = "/etcdserverpb.KV/Txn"
COMPACT = "/etcdserverpb.KV/Compact"
GRANT = "/etcdserverpb.Lease/LeaseGrant"
_WATCH = "/etcdserverpb.Watch/Watch"

ATTEMPT_SECONDS = 3.0  # a member cut off from the others does not answer: soon enough to ask another
GIVE_UP_SECONDS = 12.0  # an election takes one or two; a client should hear of more
_CANCELLED_SECONDS = 0.02
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
# A member without a leader ends our watch instead of leaving it silent.
_METADATA = (("hasleader", "true"),)
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
_PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN)


class Unavailable(StoreError):
    """No member has answered; what was asked for may have happened or not."""


class Refused(StoreError):
    """etcd has answered, and said no."""

    def __init__(self, message: str, compacted: bool) -> None:
        super().__init__(message)
        self.compacted = compacted


class Connection:
    """Channels to all members; one is asked until it fails."""

    def __init__(self, config: EtcdConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._channels: list[grpc.aio.Channel] = []
        self._methods: dict[tuple[int, str], grpc.aio.UnaryUnaryMultiCallable] = {}
        self._preferred = 0

    def open(self) -> None:
        credentials = _credentials(self._config) if self._config.tls else None
        for endpoint in self._config.endpoints:
            if credentials is None:
                channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
            else:
                channel = grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
            self._channels.append(channel)

    async def close(self) -> None:
        channels, self._channels = self._channels, []
        self._methods.clear()
        for channel in channels:
            await channel.close()
        # What was cancelled ends on the library's own thread. It must find our loop, or the next loop of this process,
        # should there be one, stumbles over it.
        await asyncio.sleep(_CANCELLED_SECONDS)

    async def call(self, method: str, request: bytes) -> bytes:
        return (await self.call_told(method, request))[0]

    async def call_told(self, method: str, request: bytes) -> tuple[bytes, bool]:
        """The answer, and whether an attempt before it may have had an effect as well."""
        deadline = self._clock.monotonic() + GIVE_UP_SECONDS
        pause, repeated = _FIRST_PAUSE, False
        while True:
            asked = self._preferred
            try:
                answer: bytes = await self._ask(asked, method, request)
                return answer, repeated
            except grpc.aio.AioRpcError as error:
                if error.code() not in _PASSING:
                    raise _refused(error) from None
                self.avoid(asked)
                repeated = True
                if self._clock.monotonic() + pause > deadline:
                    raise Unavailable(self._told(error)) from None
            await asyncio.sleep(pause * (1 + self._clock.random().random()))
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _ask(self, member: int, method: str, request: bytes) -> bytes:
        if not self._channels:
            raise Unavailable("the connection to etcd is closed")
        ask = self._methods.get((member, method))
        if ask is None:
            ask = self._methods[member, method] = self._channels[member].unary_unary(method)
        answer: bytes = await ask(request, timeout=ATTEMPT_SECONDS)
        return answer

    def avoid(self, member: int) -> None:
        """Ask the next one from now on, unless somebody has seen to that already."""
        if self._preferred == member:
            self._preferred = (member + 1) % len(self._config.endpoints)

    async def watch(self, request: bytes) -> AsyncGenerator[WatchAnswer, None]:
        """What one member tells, until it or the connection fails: then `Unavailable`."""
        member = self._preferred
        stream = self._channels[member].stream_stream(_WATCH)(metadata=_METADATA)
        try:
            await asyncio.wait_for(stream.write(request), ATTEMPT_SECONDS)
            async with aclosing(self._answers(stream)) as answers:
                async for answer in answers:
                    yield answer
            raise Unavailable("etcd has ended the watch")
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError) as error:
            self.avoid(member)
            raise Unavailable(self._told(error)) from None
        except Unavailable:
            self.avoid(member)
            raise
        finally:
            stream.cancel()

    async def _answers(self, stream: grpc.aio.StreamStreamCall) -> AsyncGenerator[WatchAnswer, None]:
        """The first answer, which says that the watch is there, has to come soon."""
        message = await asyncio.wait_for(stream.read(), ATTEMPT_SECONDS)
        while message is not grpc.aio.EOF:
            yield read_watch(message)
            message = await stream.read()

    def _told(self, error: Exception) -> str:
        details = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
        return f"etcd at {', '.join(self._config.endpoints)} does not answer: {details or type(error).__name__}"


def _refused(error: grpc.aio.AioRpcError) -> Refused:
    compacted = error.code() is grpc.StatusCode.OUT_OF_RANGE and "compacted" in (error.details() or "")
    return Refused(f"etcd refused: {error.details() or error.code().name}", compacted)


def _credentials(config: EtcdConfig) -> grpc.ChannelCredentials:
    try:
        return grpc.ssl_channel_credentials(
            *(Path(path).read_bytes() if path else None for path in (config.cafile, config.keyfile, config.certfile))
        )
    except OSError as error:
        raise StoreError(f"cannot read etcd's {error.filename}: {error.strerror}") from None
