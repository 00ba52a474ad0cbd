"""The server's entrance as tests use it: custom resources come as they come over HTTP.

A client knows a custom resource by its name; what the server serves under that name changes with its definition.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.calls import Call, ListResult, WatchEvent
from kubeloop.api.dynamic import Custom
from kubeloop.api.structural.instance import Instance
from kubeloop.apiserver.entry import LocalEntry

replace = msgspec.structs.replace


class Entry(LocalEntry):
    """Calls as some user, on whatever is served at that moment."""

    async def call(self, call: Call) -> Any:
        answer = await super().call(self._as_served(call))
        if isinstance(answer, ListResult):
            return replace(answer, items=tuple(map(_wire_form, answer.items)))
        return _wire_form(answer)

    async def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        batches = super().watch(self._as_served(call))
        try:
            async for batch in batches:
                yield [replace(one, object=_wire_form(one.object)) for one in batch]
        finally:
            await batches.aclose()  # type: ignore[attr-defined]  # an async generator

    def _as_served(self, call: Call) -> Call:
        wanted = call.resource
        if not wanted.is_stored:
            return call
        try:
            served = self._server.registry.of(wanted).resource
        except KeyError:
            raise errors.generic(404) from None
        return call if served is wanted else replace(call, resource=served)


def _wire_form(obj: Any) -> Any:
    if not isinstance(obj, Instance):
        return obj
    return Custom({**obj, "metadata": codec.to_plain(obj.metadata)})
