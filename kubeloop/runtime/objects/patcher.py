# SPDX-License-Identifier: Apache-2.0
"""Client interface that adoption and finalizers need."""

from __future__ import annotations

from typing import Any, Protocol

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import MERGE_PATCH


class Patcher(Protocol):
    """Client that patches."""

    async def patch(
        self, what: Resource, name: str, patch: Any, namespace: str = "", *, type: str = MERGE_PATCH
    ) -> Any:
        """Patch an object; returns it as it is afterwards."""
