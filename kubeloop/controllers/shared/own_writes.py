"""Makes a controller wait until its caches show its own writes before it syncs a key again."""

from __future__ import annotations

from typing import Any

from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey


class OwnWrites:
    """ResourceVersions that the caches must reach, by key of one controller."""

    def __init__(self, *informers: Informer) -> None:
        self._informers = {one.resource.kind: one for one in informers}
        self._awaited: dict[ObjectKey, dict[str, int]] = {}

    def note(self, key: ObjectKey, kind: str, answer: Any) -> None:
        """Record the object that a write returned; one without a version, as after some deletions, is ignored."""
        metadata = getattr(answer, "metadata", None)
        version = getattr(metadata, "resource_version", "")
        if version.isdigit():
            versions = self._awaited.setdefault(key, {})
            versions[kind] = max(versions.get(kind, 0), int(version))

    async def seen(self, key: ObjectKey) -> None:
        """Wait until the caches show all recorded writes; raises `TimeoutError` if that takes too long.

        A version is waited for only once, because a server may have been restored to an older state.
        """
        versions = self._awaited.pop(key, None)
        if versions:
            for kind, version in versions.items():
                await self._informers[kind].seen(str(version))
