"""Interns pod specs: pods of one template have equal specs except for their node, and share one in memory."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod

_MAX_SPECS: Final = 512  # maximum number of specs; above it, specs that no pod uses are dropped


class PodSpecInterner:
    """Interner of pod specs."""

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}
        self._shared: set[int] = set()  # identities of the interned specs

    def __len__(self) -> int:
        return len(self._known)

    def unite(self, obj: Any) -> None:
        """Replace a new pod's spec by an equal interned one. Other kinds are ignored: they are few."""
        if not isinstance(obj, Pod):
            return
        node = obj.spec.node_name
        spec = replace(obj.spec, node_name="") if node else obj.spec
        if id(spec) in self._shared:
            return
        text = codec.encode(spec)
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _MAX_SPECS:
                self._known.clear()
                self._shared.clear()
            known = self._known[text] = spec
            self._shared.add(id(spec))
        codec.force_setattr(obj, "spec", replace(known, node_name=node) if node else known)
