# SPDX-License-Identifier: Apache-2.0
"""Prevents the deletion of a pod group with pods that have not ended.

Watches: pod groups; pods, for the groups that they leave.
Owns: the finalizer `scheduling.k8s.io/podgroup-protection`, which the API server adds to every new group.
Writes: finalizers of pod groups.
Wakes itself: never.
Differs from upstream: lists pods from the server before it releases a group, since the cache may not show all.
"""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.api.pods.pod import is_terminal
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.ownership.protection import needs_finalizer_removal
from kubeloop.controllers.shared.pods.coalesced_list import CoalescedPodList
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.finalizers import remove_finalizer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "podgroup-protection-controller"
QUEUE: Final = "podgroupprotection"  # upstream's queue name, as dashboards know it
FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"
WORKERS: Final = 1  # as upstream
# Index of pods that have not ended, by group.
ACTIVE_BY_GROUP: Final = "active pods by group"


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    groups = context.informers.for_resource(resource_of_class(PodGroup))
    pods = context.informers.for_resource(resource_of_class(Pod))
    pods.add_indexer(ACTIVE_BY_GROUP, lambda pod: map(_text, active_group_of(pod)))
    reconciler = Reconciler(context, groups, pods)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(groups, own_key, lambda _, new: new is not None and needs_finalizer_removal(new, FINALIZER))
    controller.watches(pods, group_of, releases_group)
    return controller


class Reconciler:
    """Removes finalizers of pod groups by key."""

    def __init__(self, context: ControllerContext, groups: Informer, pods: Informer) -> None:
        self._client = PatchOrUpdate(context.client)
        self._live = CoalescedPodList(context.client)
        self._groups = groups
        self._pods = pods

    async def reconcile(self, key: ObjectKey) -> None:
        """Remove the finalizer of a deleted group without active pods."""
        group: PodGroup | None = self._groups.get(*key)
        if group is None or not needs_finalizer_removal(group, FINALIZER):
            return
        if self._pods.by_index(ACTIVE_BY_GROUP, _text(key)):
            return
        if not any(key in active_group_of(pod) for pod in await self._live.list_pods(key.namespace)):
            await remove_finalizer(self._client, self._groups.resource, group, FINALIZER)


def group_of(pod: Pod) -> tuple[ObjectKey, ...]:
    """Return the key of the pod's group, if it has one."""
    named = pod.spec.scheduling_group
    if named is None or named.pod_group_name is None:
        return ()
    return (ObjectKey(pod.metadata.namespace, named.pod_group_name),)


def active_group_of(pod: Pod) -> tuple[ObjectKey, ...]:
    """Return the key of the pod's group, if the pod has not ended."""
    return () if is_terminal(pod) else group_of(pod)


def releases_group(old: Any, new: Any) -> bool:
    """Return True if a pod no longer needs its group: it has ended, is gone, or was replaced."""
    if new is None or is_terminal(new):
        return True
    return old is not None and old.metadata.uid != new.metadata.uid


def _text(key: ObjectKey) -> str:
    return f"{key.namespace}/{key.name}"
