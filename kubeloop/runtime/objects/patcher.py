"""The one thing that adoption and finalizers need of a client."""

from __future__ import annotations

from typing import Any, Protocol

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import MERGE_PATCH


class Patcher(Protocol):
    """A client, as far as it patches."""

    async def patch(
        self, what: Resource, name: str, patch: Any, namespace: str = "", *, type: str = MERGE_PATCH
    ) -> Any:
        """The object as it is afterwards."""
