# SPDX-License-Identifier: Apache-2.0
"""Runs a deployment's pods from its current template, in the desired number, at the configured rollout pace.

key ─▶ reconciler: claims replica sets ─▶ scaling │ rolling │ recreate ─▶ writing: replica sets, then the status once
                                          size of each replica set (pure)
revisions: numbers, annotations, history    progress, status, conditions: reported state    rollback: old annotation

Watches: deployments, replica sets, pods.
Owns: replica sets.
Writes: creates, patches and deletes replica sets; updates the status and revision of deployments.
Wakes itself: when a rollout's deadline has passed.
Differs from upstream: writes the status once per sync instead of up to three times; reads its own writes before the
cache shows them, so that none of them conflicts with another; scales up and down in one sync; a change of the size
that requires no change of any replica set does not delay the rollout.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.selectors import EVERYTHING, SelectorError, label_selector_as_selector
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.deployment.limits import RECREATE
from kubeloop.controllers.deployment.observer import DeploymentCaches
from kubeloop.controllers.deployment.reconciler import Reconciler
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import CONTROLLER, ORPHANS, controller_uid_of, orphan_namespace_of
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import controller_key, own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "deployment-controller"
QUEUE = "deployment"  # upstream's queue name, as dashboards know it

_owner_key = controller_key(resource_of_class(Deployment))


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    deployments, replica_sets, pods = (
        context.informers.for_resource(resource_of_class(kind)) for kind in (Deployment, ReplicaSet, Pod)
    )
    replica_sets.add_indexer(CONTROLLER, controller_uid_of)
    replica_sets.add_indexer(ORPHANS, orphan_namespace_of)
    pods.add_indexer(CONTROLLER, controller_uid_of)
    recorder = context.recorder.with_component(NAME)
    caches = DeploymentCaches(deployments, replica_sets, pods)
    reconciler = Reconciler(context.client, recorder, context.clock, caches)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    workers = context.config.concurrent_deployment_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    waking = EventMapper(deployments, replica_sets)
    controller.watches(deployments, own_key, resync=context.resync_period())
    controller.watches(replica_sets, waking.keys_of_replica_set, _affects_deployment)
    controller.watches(pods, waking.keys_of_pod, _is_gone)
    return controller


class EventMapper:
    """Maps events of replica sets and pods to keys of deployments."""

    def __init__(self, deployments: Informer, replica_sets: Informer) -> None:
        self._deployments = deployments
        self._replica_sets = replica_sets

    def keys_of_replica_set(self, replica_set: ReplicaSet) -> Iterable[ObjectKey]:
        """Return the key of the replica set's deployment; for an orphan the keys of those that might adopt it."""
        meta = replica_set.metadata
        if controller_of(meta.owner_references) is not None:
            return _owner_key(replica_set)
        if not meta.labels or meta.deletion_timestamp is not None:
            return ()
        return [key_of(one) for one in self._deployments.list(meta.namespace) if _selects(one, replica_set)]

    def keys_of_pod(self, pod: Pod) -> Iterable[ObjectKey]:
        """Return the key of the pod's deployment if its strategy is Recreate."""
        owner = controller_of(pod.metadata.owner_references)
        if owner is None or owner.kind != "ReplicaSet":
            return ()
        replica_set = self._replica_sets.get(pod.metadata.namespace, owner.name)
        if replica_set is None or replica_set.metadata.uid != owner.uid:
            return ()
        return [key for key in _owner_key(replica_set) if self._recreates(key)]

    def _recreates(self, key: ObjectKey) -> bool:
        deployment = self._deployments.get(*key)
        return deployment is not None and deployment.spec.strategy.type == RECREATE


def _selects(deployment: Deployment, replica_set: ReplicaSet) -> bool:
    try:
        selector = label_selector_as_selector(deployment.spec.selector)
    except SelectorError:
        return False
    return selector != EVERYTHING and selector.matches(replica_set.metadata.labels)


def _affects_deployment(old: ReplicaSet | None, new: ReplicaSet | None) -> bool:
    """Ignore changes of orphans, unless their labels or owners change."""
    if old is None or new is None:
        return True
    are_orphans = orphan_namespace_of(old) and orphan_namespace_of(new)
    return not are_orphans or old.metadata.labels != new.metadata.labels


def _is_gone(_: Any, new: Any) -> bool:
    return new is None
