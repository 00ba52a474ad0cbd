"""Cache of the newest known version of each object, from an informer or from own writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim
from kubeloop.client import Client
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of

Changed = Callable[[ObjectKey], None]


def _tell_nobody(_: ObjectKey) -> None:
    """Ignore a change."""


class AssumeCache:
    """Event handler of an informer that also accepts the objects returned by writes.

    Invariant: `_written` holds only versions that the informer has not reached. Afterwards the informer's state counts,
    including a deletion.
    """

    def __init__(self, informer: Informer, changed: Changed = _tell_nobody) -> None:
        self._informer = informer
        self._changed = changed
        self._written: dict[ObjectKey, Any] = {}

    def get(self, namespace: str, name: str) -> Any | None:
        """Return the newest known version of an object."""
        key = ObjectKey(namespace, name)
        shown, written = self._informer.get(namespace, name), self._written.get(key)
        if written is None:
            return shown
        if self._is_shown(written) or (shown is not None and _version(shown) >= _version(written)):
            del self._written[key]
            return shown
        return written

    def note(self, answer: Any) -> Any:
        """Record the object that a write returned, unless the informer is newer; returns that object."""
        key = key_of(answer)
        before = self.get(*key)
        if not self._is_shown(answer) and (before is None or _version(before) < _version(answer)):
            self._written[key] = answer
            self._changed(key)
        return answer

    def on_add(self, obj: Any) -> None:
        """Report a new object."""
        self._changed(key_of(obj))

    def on_update(self, _: Any, new: Any) -> None:
        """Report a changed object."""
        self._changed(key_of(new))

    def on_delete(self, obj: Any) -> None:
        """Report a deleted object and drop its recorded version."""
        key = key_of(obj)
        written = self._written.get(key)
        if written is not None and _version(written) <= _version(obj):
            del self._written[key]
        self._changed(key)

    def _is_shown(self, obj: Any) -> bool:
        reached = self._informer.version
        return reached.isdigit() and int(reached) >= _version(obj)


async def current_claim(client: Client, claim: PersistentVolumeClaim) -> PersistentVolumeClaim | None:
    """Ask the server for a claim; None if it was deleted, even if there is another one of that name."""
    try:
        current: PersistentVolumeClaim = await client.get(
            PersistentVolumeClaim, claim.metadata.name, claim.metadata.namespace
        )
    except NotFound:
        return None
    return current if current.metadata.uid == claim.metadata.uid else None


def _version(obj: Any) -> int:
    """Return the resourceVersion as a number; 0 if it is not numeric."""
    text = obj.metadata.resource_version
    return int(text) if text.isdigit() else 0
