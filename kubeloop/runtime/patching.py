"""The one thing that adoption and finalizers need of a client."""

from __future__ import annotations

from typing import Any, Protocol

from kubeloop.api.calls import MERGE_PATCH
from kubeloop.api.kinds import Resource


class Patcher(Protocol):
    """A client, as far as it patches."""

    async def patch(
        self, what: Resource, name: str, patch: Any, namespace: str = "", *, type: str = MERGE_PATCH
    ) -> Any:
        """The object as it is afterwards."""
