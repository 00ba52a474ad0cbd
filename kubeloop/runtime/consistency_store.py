# SPDX-License-Identifier: Apache-2.0
"""Consistency store: makes a controller wait until its caches show its own writes before it syncs a key again.

It serves controllers that derive counts or lists from several caches, of which an assume cache would overlay only the
written objects. See `kubeloop.runtime.assume_cache` and `kubeloop.runtime.queue.expectations` for the alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.metrics import MetricFamily, MetricValue
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.versions import version_number


class ConsistencyStore:
    """ResourceVersions that the caches must reach, by key of one controller and by kind.

    Upstream's returns an error for a stale key, which is then retried with backoff; here the sync waits.
    """

    def __init__(self, *informers: Informer, stale_syncs: MetricFamily[MetricValue] | None = None) -> None:
        self._informers = {one.resource.kind: one for one in informers}
        self._stale_syncs = stale_syncs  # counted by group and resource of the cache that a sync found stale
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
            self._count_stale(versions)
            for kind, version in versions.items():
                await self._informers[kind].wait_for_version(str(version))

    def _count_stale(self, versions: Mapping[str, int]) -> None:
        """Count the sync by the first cache that it has to wait for."""
        if self._stale_syncs is None:
            return
        for kind, version in versions.items():
            informer = self._informers[kind]
            if not informer.has_version(version):
                self._stale_syncs.with_labels(informer.resource.group, informer.resource.plural).value += 1
                return

    def clear(self, key: ObjectKey) -> None:
        """Drop the writes of a key that is gone."""
        self._writes.pop(key, None)
