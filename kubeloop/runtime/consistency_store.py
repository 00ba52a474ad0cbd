# SPDX-License-Identifier: Apache-2.0
"""Consistency store: makes a controller wait until its caches show its own writes before it syncs a key again.

It serves controllers that derive counts or lists from several caches, of which an assume cache would overlay only the
written objects. See `kubeloop.runtime.assume_cache` and `kubeloop.runtime.queue.expectations` for the alternatives.
"""

from __future__ import annotations

from typing import Any

from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.versions import version_number


class ConsistencyStore:
    """ResourceVersions that the caches must reach, by key of one controller and by kind.

    Upstream's returns an error for a stale key, which is then retried with backoff; here the sync waits.
    """

    def __init__(self, *informers: Informer) -> None:
        self._informers = {one.resource.kind: one for one in informers}
        self._writes: dict[ObjectKey, dict[str, int]] = {}

    def wrote_at(self, key: ObjectKey, kind: str, answer: Any) -> None:
        """Record the object that a write returned; one without a version, as after some deletions, is ignored."""
        metadata = getattr(answer, "metadata", None)
        version = version_number(getattr(metadata, "resource_version", ""))
        if version:
            versions = self._writes.setdefault(key, {})
            versions[kind] = max(versions.get(kind, 0), version)

    async def wait_ready(self, key: ObjectKey) -> None:
        """Wait until the caches show all recorded writes; raises `TimeoutError` if that takes too long.

        A version is waited for only once, because a server may have been restored to an older state.
        """
        versions = self._writes.pop(key, None)
        if versions:
            for kind, version in versions.items():
                await self._informers[kind].wait_for_version(str(version))

    def clear(self, key: ObjectKey) -> None:
        """Drop the writes of a key that is gone."""
        self._writes.pop(key, None)
