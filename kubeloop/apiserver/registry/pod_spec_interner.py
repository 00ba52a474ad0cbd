"""Pods of one template have equal specs, but for their node: those that are kept by the thousand are one in memory."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod

_MOST: Final = 512  # specs that are remembered; what no pod has any more is forgotten when there are more


class AlikeSpecs:
    """Finds for a spec an equal one that was there before."""

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}
        self._shared: set[int] = set()  # the identities of these

    def __len__(self) -> int:
        return len(self._known)

    def unite(self, obj: Any) -> None:
        """Let an object that nobody else has yet share its spec with its like. Only for pods: others are few."""
        if not isinstance(obj, Pod):
            return
        node = obj.spec.node_name
        spec = replace(obj.spec, node_name="") if node else obj.spec
        if id(spec) in self._shared:
            return
        text = codec.encode(spec)
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
                self._shared.clear()
            known = self._known[text] = spec
            self._shared.add(id(spec))
        codec.force_setattr(obj, "spec", replace(known, node_name=node) if node else known)
