# SPDX-License-Identifier: Apache-2.0
"""Marks the pods of a silent node as not ready, since its kubelet cannot."""

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


class PodReadinessWriter:
    """Sets the Ready condition of pods to False."""

    def __init__(self, client: Client, recorder: EventRecorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock

    async def mark_pods_not_ready(self, pods: Iterable[Pod]) -> bool:
        """Mark all pods; returns True if all succeeded. A failure does not stop the others."""
        done = True
        for pod in pods:
            try:
                await self.mark_pod_not_ready(pod)
            except (ApiError, ClientError) as error:
                done = False
                log.info("failed to mark pod %s/%s as not ready: %s", pod.metadata.namespace, pod.metadata.name, error)
        return done

    async def mark_pod_not_ready(self, pod: Pod) -> None:
        """Mark one pod and record an event."""
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
    """Build a strategic merge patch that fails if the pod has changed; None if it is not ready or has no condition."""
    ready = ready_condition(pod)
    if ready is None or ready.status == "False":
        return None
    condition = {**codec.to_plain(ready), "status": "False", "lastTransitionTime": now}
    meta = pod.metadata
    return {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": [condition]},
    }
