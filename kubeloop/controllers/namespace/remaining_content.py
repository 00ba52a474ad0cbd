# SPDX-License-Identifier: Apache-2.0
"""Enqueues a namespace when its last remaining object is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory


class RemainingContentTracker:
    """Remaining objects of namespaces; a kind is watched from the first remaining object on."""

    def __init__(self, informers: SharedInformerFactory, wake: Callable[[str], None]) -> None:
        self._informers = informers
        self._wake = wake
        self._watched: dict[tuple[str, str, str], Informer] = {}
        self._left: dict[str, set[str]] = {}  # UIDs by namespace; never empty

    def wait_for_deletion(self, namespace: str, found: Iterable[tuple[Resource, ObjectMeta]]) -> bool:
        """Wait for the deletion of these objects; False if the informer does not show some of them."""
        found = list(found)
        self._left[namespace] = {meta.uid for _, meta in found}
        seen = True
        for resource, meta in found:
            obj = self._informer(resource).get(meta.namespace, meta.name)
            seen = seen and obj is not None and obj.metadata.uid == meta.uid
        return seen

    def forget(self, namespace: str) -> None:
        """Drop the state of a namespace."""
        self._left.pop(namespace, None)

    def _informer(self, resource: Resource) -> Informer:
        key = (resource.group, resource.version, resource.plural)
        informer = self._watched.get(key)
        if informer is None:
            informer = self._watched[key] = self._informers.for_metadata(resource)
            informer.add_handler(ResourceEventHandlerFuncs(on_delete=self._gone))
        return informer

    def _gone(self, obj: Any) -> None:
        meta = obj.metadata
        left = self._left.get(meta.namespace)
        if left is None:
            return
        left.discard(meta.uid)
        if not left:
            del self._left[meta.namespace]
            self._wake(meta.namespace)
