# SPDX-License-Identifier: Apache-2.0
"""Server that follows a test's script, with the failures of real servers and networks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.requests import EventType, ListResult, WatchEvent

# Instead of an answer: nothing, for ever, as on a connection that is only half there.
SILENCE: Final = "silence"
# Instead of a watch's end: it stays open.
Step = Sequence[WatchEvent] | Exception | float | str


def config(name: str, version: int, *, namespace: str = "default", uid: str = "", value: str = "") -> ConfigMap:
    meta = ObjectMeta(name=name, namespace=namespace, uid=uid or f"uid-{name}", resource_version=str(version))
    return ConfigMap(metadata=meta, data={"value": value} if value else {})


def event(kind: EventType, name: str, version: int, **more: str) -> WatchEvent:
    return WatchEvent(kind, config(name, version, **more), str(version))


def bookmark(version: int, *, end: bool = False) -> WatchEvent:
    return WatchEvent("BOOKMARK", None, str(version), end)


def page(version: int, *objects: Any, more: str = "") -> ListResult:
    return ListResult(items=objects, resource_version=str(version), continue_token=more)


class ScriptedSource:
    """Answers each list and each watch with the next of its script; what goes beyond it is silence."""

    is_in_process = False

    def __init__(self, lists: Sequence[ListResult | Exception | str] = (), watches: Sequence[Sequence[Step]] = ()):
        self._lists = list(lists)
        self._watches = list(watches)
        self.asked: list[tuple[float, str, dict[str, Any]]] = []
        self.open = 0

    def calls(self, verb: str) -> list[dict[str, Any]]:
        return [options for _, asked, options in self.asked if asked == verb]

    def times(self, verb: str) -> list[float]:
        return [when for when, asked, _ in self.asked if asked == verb]

    def _note(self, verb: str, options: dict[str, Any]) -> None:
        self.asked.append(
            (asyncio.get_running_loop().time(), verb, {name: value for name, value in options.items() if value})
        )

    async def list(self, **options: Any) -> ListResult:
        self._note("list", options)
        answer = self._lists.pop(0) if self._lists else SILENCE
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            await asyncio.get_running_loop().create_future()
        assert isinstance(answer, ListResult)
        return answer

    async def watch(self, **options: Any) -> AsyncIterator[Sequence[WatchEvent]]:
        self._note("watch", options)
        self.open += 1
        try:
            for step in self._watches.pop(0) if self._watches else (SILENCE,):
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, float):
                    await asyncio.sleep(step)
                elif isinstance(step, str):
                    await asyncio.get_running_loop().create_future()
                else:
                    yield step
        finally:
            self.open -= 1
