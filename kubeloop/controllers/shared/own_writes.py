"""Read your own writes: a key is worked on again only when the caches show what was written for it before."""

from __future__ import annotations

from typing import Any

from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey


class OwnWrites:
    """The versions that caches have to reach, for each key of one loop."""

    def __init__(self, *informers: Informer) -> None:
        self._informers = {one.resource.kind: one for one in informers}
        self._awaited: dict[ObjectKey, dict[str, int]] = {}

    def note(self, key: ObjectKey, kind: str, answer: Any) -> None:
        """What the server answered to a write; an answer without a version, as to some deletions, tells nothing."""
        metadata = getattr(answer, "metadata", None)
        version = getattr(metadata, "resource_version", "")
        if version.isdigit():
            versions = self._awaited.setdefault(key, {})
            versions[kind] = max(versions.get(kind, 0), int(version))

    async def seen(self, key: ObjectKey) -> None:
        """Return once the caches show all that was noted; a `TimeoutError` when they don't for too long.

        That is not waited for again: a server may have been set back to an older state.
        """
        versions = self._awaited.pop(key, None)
        if versions:
            for kind, version in versions.items():
                await self._informers[kind].seen(str(version))
