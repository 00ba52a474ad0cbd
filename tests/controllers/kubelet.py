# SPDX-License-Identifier: Apache-2.0
"""Node agent for tests of controllers that manage pods: binds, runs and terminates them."""

from __future__ import annotations

from collections.abc import Callable

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.scalars.times import format_time
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.daemonset.nodes import target_node_of
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.testing import Cluster
from kubeloop.testing.cluster import ADMIN

NODE = "node"


def image_of(pod: Pod) -> str:
    """Return the tag of the first image of a pod."""
    return (pod.spec.containers or ())[0].image.rpartition(":")[2]


class Kubelet:
    """Makes every bound pod running and ready, unless configured otherwise; its own calls and watches never fail."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock = cluster.clock
        self._client = Client(InProcessTransport(cluster.server, ADMIN), user_agent="kubelet")
        self._informers = SharedInformerFactory(self._client, cluster.clock)
        self.pods: Informer = self._informers.for_resource(resource_of_class(Pod))
        self.runs: Callable[[Pod], bool] = lambda _: True  # whether a pod gets ready
        self.lets_go: Callable[[Pod], bool] = lambda _: True  # whether a deleted pod ends
        self.start_seconds = 0.0  # from bound to ready
        self.end_seconds = 0.0  # from deleted to gone

    def wire(self, context: ControllerContext) -> Controller[ObjectKey]:
        self._informers.start()
        controller = Controller("kubelet", self._reconcile, context.clock)
        controller.watches(self.pods, own_key, lambda _, new: new is not None)
        return controller

    async def _reconcile(self, key: ObjectKey) -> Result | None:
        pod = self.pods.get(*key)
        if pod is None:
            return None
        try:
            return await self._end(pod) if pod.metadata.deletion_timestamp is not None else await self._run(pod)
        except (NotFound, Conflict):
            return None

    async def _end(self, pod: Pod) -> Result | None:
        if not self.lets_go(pod):
            return Result(requeue_after=1)
        if self.end_seconds and pod.status.phase == "Running":
            await self._say(pod, phase="Failed")
            return Result(requeue_after=self.end_seconds)
        meta = pod.metadata
        same = Preconditions(uid=meta.uid)
        await self._client.delete(Pod, meta.name, meta.namespace, grace_seconds=0, preconditions=same)
        return None

    async def _run(self, pod: Pod) -> Result | None:
        meta = pod.metadata
        if not pod.spec.node_name:
            await self._client.bind(meta.name, meta.namespace, target_node_of(pod) or NODE)
            return Result(requeue_after=self.start_seconds) if self.start_seconds else None
        if pod.status.phase != "Pending":
            return None
        if not self.runs(pod):
            return Result(requeue_after=1)
        since = format_time(self._clock.now())
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        await self._say(pod, phase="Running", conditions=[ready])
        return None

    async def _say(self, pod: Pod, **status: object) -> None:
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": status}
        await self._client.patch(Pod, meta.name, patch, meta.namespace, subresource="status")
