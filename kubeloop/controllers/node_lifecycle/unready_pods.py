"""Pods of a node that has fallen silent are no longer ready: its own agent can't say so."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from kubeloop.api import codec
from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import ready_condition
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.client import Client
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.runtime.events.recorder import EventRecorder

log = logging.getLogger(__name__)


class UnreadyPods:
    def __init__(self, client: Client, recorder: EventRecorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock

    async def mark_all(self, pods: Iterable[Pod]) -> bool:
        """Whether all of them say so now; one that can't be written doesn't keep the others from it."""
        done = True
        for pod in pods:
            try:
                await self.mark(pod)
            except (ApiError, ClientError) as error:
                done = False
                log.info("pod %s/%s still counts as ready: %s", pod.metadata.namespace, pod.metadata.name, error)
        return done

    async def mark(self, pod: Pod) -> None:
        patch = unready_patch(pod, format_time(self._clock.now()))
        if patch is None:
            return
        meta = pod.metadata
        try:
            await self._client.patch(
                Pod, meta.name, patch, meta.namespace, type=STRATEGIC_PATCH, subresource="status"
            )  # fmt: skip
        except NotFound:
            return
        self._recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")


def unready_patch(pod: Pod, now: str) -> dict[str, Any] | None:
    """A strategic patch that fails if the pod has changed; None for one that isn't ready, or has never said."""
    ready = ready_condition(pod)
    if ready is None or ready.status == "False":
        return None
    condition = {**codec.to_plain(ready), "status": "False", "lastTransitionTime": now}
    meta = pod.metadata
    return {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": [condition]},
    }
