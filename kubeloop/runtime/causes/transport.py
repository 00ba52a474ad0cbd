# SPDX-License-Identifier: Apache-2.0
"""Transport wrapper that attaches the current cause to writes and records them in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, WatchEvent
from kubeloop.client.transport import ClientTransport, commit_together
from kubeloop.runtime.causes.cause import RecordedWrite, current_cause

_READS = ("get", "list", "watch")


class CauseTransport:
    """Transport whose writes carry the current cause and are recorded in it."""

    def __init__(self, inner: ClientTransport) -> None:
        self._inner = inner

    async def call(self, call: Call) -> Any:
        """Make a call; a write within a reconcile carries the cause."""
        cause = current_cause()
        if cause is None or call.verb in _READS:
            return await self._inner.call(call)
        if not call.cause:
            call = msgspec.structs.replace(call, cause=cause.text)
        try:
            answer = await self._inner.call(call)
        except Exception as error:
            cause.record_write(_write_of(call, None, type(error).__name__))
            raise
        cause.record_write(_write_of(call, answer, ""))
        return answer

    async def commit_together(self, call: Call, names: Sequence[str]) -> list[str]:
        """Make a write for several objects in one commit; it carries the cause, likewise."""
        cause = current_cause()
        if cause is None:
            return await commit_together(self._inner, call, names)
        if not call.cause:
            call = msgspec.structs.replace(call, cause=cause.text)
        versions = await commit_together(self._inner, call, names)
        resource = _resource_of(call)
        for name, version in zip(names, versions, strict=True):
            if version:
                cause.record_write(RecordedWrite(call.verb, resource, call.namespace, name, version))
        return versions

    def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        """Watch through the wrapped transport."""
        return self._inner.watch(call)

    def is_in_process(self, resource: Resource) -> bool:
        """Return the wrapped transport's answer."""
        return self._inner.is_in_process(resource)

    def discovery_version(self) -> object | None:
        """Return the wrapped transport's edition."""
        return self._inner.discovery_version()

    async def document(self, path: str) -> Any:
        """Return the wrapped transport's document."""
        return await self._inner.document(path)

    def stream(self, call: Call) -> AsyncIterator[bytes]:
        """Stream through the wrapped transport."""
        return self._inner.stream(call)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()


def _resource_of(call: Call) -> str:
    return call.resource.group_resource + (f"/{call.subresource}" if call.subresource else "")


def _write_of(call: Call, answer: Any, outcome: str) -> RecordedWrite:
    resource = _resource_of(call)
    meta = getattr(answer, "metadata", None)
    name = call.name or getattr(meta, "name", "") or ""
    return RecordedWrite(
        call.verb, resource, call.namespace, name, outcome or getattr(meta, "resource_version", "") or ""
    )
