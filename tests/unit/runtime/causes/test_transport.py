# SPDX-License-Identifier: Apache-2.0
"""Writes carry why they are made; reads don't, and nothing else changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from kubeloop.api.errors import Conflict, conflict
from kubeloop.api.generated import core_v1, meta_v1
from kubeloop.api.kinds import RESOURCES
from kubeloop.api.requests import Call, WatchEvent
from kubeloop.runtime.causes import cause as causes
from kubeloop.runtime.causes.cause import Cause, Origin, RecordedWrite
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.sim.loop import run_virtual

PODS = next(one for one in RESOURCES if one.plural == "pods")


class RecordingTransport:
    """Transport that records calls, and fails those for the name `taken`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.closed = False

    async def call(self, call: Call) -> Any:
        self.calls.append(call)
        if call.name == "taken":
            raise conflict("", "pods", "taken")
        return core_v1.Pod(metadata=meta_v1.ObjectMeta(name=call.name or "new-x7", resource_version="42"))

    async def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        yield [WatchEvent("BOOKMARK", None, call.options["resourceVersion"])]

    def is_in_process(self, resource: Any) -> bool:
        return True

    def discovery_version(self) -> object | None:
        return self

    async def document(self, path: str) -> Any:
        return {"path": path}

    async def stream(self, call: Call) -> AsyncIterator[bytes]:
        yield call.name.encode()

    async def close(self) -> None:
        self.closed = True


def test_writes_have_a_cause_and_are_recorded_with_their_outcome() -> None:
    async def main() -> None:
        inner = RecordingTransport()
        transport = CauseTransport(inner)
        cause = Cause("c", "k", (Origin("Pod", "d", "a", "1", "ADDED"),))
        token = causes.set_current(cause)
        await transport.call(Call(verb="get", resource=PODS, namespace="d", name="a"))
        await transport.call(Call(verb="create", resource=PODS, namespace="d"))
        with pytest.raises(Conflict):
            await transport.call(Call(verb="patch", resource=PODS, namespace="d", name="taken", subresource="status"))
        await transport.call(Call(verb="delete", resource=PODS, namespace="d", name="a", cause="told already"))
        causes.reset_current(token)
        await transport.call(Call(verb="delete", resource=PODS, namespace="d", name="b"))

        assert [call.cause for call in inner.calls] == ["", cause.text, cause.text, "told already", ""]
        assert cause.writes == (
            RecordedWrite("create", "pods", "d", "new-x7", "42"),
            RecordedWrite("patch", "pods/status", "d", "taken", "Conflict"),
            RecordedWrite("delete", "pods", "d", "a", "42"),
        )

    run_virtual(main())


def test_caused_transport_delegates_everything_else() -> None:
    async def main() -> None:
        inner = RecordingTransport()
        transport = CauseTransport(inner)
        call = Call(verb="watch", resource=PODS, options={"resourceVersion": "5"})
        assert [batch[0].resource_version async for batch in transport.watch(call)] == ["5"]
        assert [piece async for piece in transport.stream(Call(verb="get", resource=PODS, name="a"))] == [b"a"]
        assert transport.is_in_process(PODS)
        assert transport.discovery_version() is inner
        assert await transport.document("/version") == {"path": "/version"}
        await transport.close()
        assert inner.closed

    run_virtual(main())
