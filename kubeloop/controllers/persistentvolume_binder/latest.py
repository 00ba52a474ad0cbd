"""The newest known version of each object: as an informer shows it, or as a write of our own made it a moment ago."""

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
    """Not everybody keeps something by what the objects are like."""


class Latest:
    """A handler of an informer's events that also takes what the server answered to writes.

    Always true: `_written` holds only versions that the informer has not reached. Once it has, what it shows counts,
    be it that the object is gone.
    """

    def __init__(self, informer: Informer, changed: Changed = _tell_nobody) -> None:
        self._informer = informer
        self._changed = changed
        self._written: dict[ObjectKey, Any] = {}

    def get(self, namespace: str, name: str) -> Any | None:
        key = ObjectKey(namespace, name)
        shown, written = self._informer.get(namespace, name), self._written.get(key)
        if written is None:
            return shown
        if self._is_shown(written) or (shown is not None and _version(shown) >= _version(written)):
            del self._written[key]
            return shown
        return written

    def note(self, answer: Any) -> Any:
        """Take what the server answered to a write, unless the informer knows more by now; returns the answer."""
        key = key_of(answer)
        before = self.get(*key)
        if not self._is_shown(answer) and (before is None or _version(before) < _version(answer)):
            self._written[key] = answer
            self._changed(key)
        return answer

    def on_add(self, obj: Any) -> None:
        self._changed(key_of(obj))

    def on_update(self, _: Any, new: Any) -> None:
        self._changed(key_of(new))

    def on_delete(self, obj: Any) -> None:
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
    """Versions of one collection grow; one that is no number is no newer than any."""
    text = obj.metadata.resource_version
    return int(text) if text.isdigit() else 0
