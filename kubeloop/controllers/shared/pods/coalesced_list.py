# SPDX-License-Identifier: Apache-2.0
"""Lists the pods of a namespace from the server, with one request for concurrent callers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.client import Client


class _Listed(NamedTuple):
    begun: int
    pods: Sequence[Pod]


class _NamespaceList:
    """Waiting callers and last result of one namespace."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.askers = 0
        self.last = _Listed(-1, ())


class CoalescedPodList:
    """Live pod lists that concurrent callers share."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._moments = count()
        self._turns: dict[str, _NamespaceList] = {}

    async def list_pods(self, namespace: str) -> Sequence[Pod]:
        """Return a list of the namespace's pods whose request began after this call."""
        asked = next(self._moments)
        turn = self._turns.setdefault(namespace, _NamespaceList())
        turn.askers += 1
        try:
            async with turn.lock:
                if turn.last.begun < asked:
                    begun = next(self._moments)
                    turn.last = _Listed(begun, (await self._client.list(Pod, namespace)).items)
                return turn.last.pods
        finally:
            turn.askers -= 1
            if not turn.askers:
                self._turns.pop(namespace, None)
