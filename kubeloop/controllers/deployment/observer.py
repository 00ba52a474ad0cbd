# SPDX-License-Identifier: Apache-2.0
"""Reads a deployment, its replica sets and their pods from the caches and the controller's own writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.owner_references import is_controlled_by
from kubeloop.api.selectors import SelectorError, label_selector_as_selector
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.controller import TerminalError
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import CONTROLLER, ORPHANS
from kubeloop.runtime.objects.controller_ref_manager import ClaimOwner, claim, live_check
from kubeloop.runtime.objects.keys import ObjectKey


class DeploymentCaches(NamedTuple):
    """Informers that the controller reads from."""

    deployments: Informer
    replica_sets: Informer
    pods: Informer


class Observer:
    """Returns the newest state that is known without a request to the server."""

    def __init__(self, client: Client, caches: DeploymentCaches) -> None:
        self._client = client
        self._caches = caches
        self.assumed_deployments = AssumeCache(caches.deployments)
        self.assumed_replica_sets = AssumeCache(caches.replica_sets)

    def deployment(self, key: ObjectKey) -> Deployment | None:
        """Return the deployment in its newest known form; None if it is gone."""
        return self.assumed_deployments.get(*key)

    async def replica_sets(self, deployment: Deployment) -> list[ReplicaSet] | None:
        """Return the deployment's replica sets; None if it just adopted orphans, whose events will enqueue it again."""
        uid, namespace = deployment.metadata.uid, deployment.metadata.namespace
        owned = self.assumed_replica_sets.by_index(CONTROLLER, uid)
        candidates = (*owned, *self._caches.replica_sets.by_index(ORPHANS, namespace))
        check = live_check(deployment, "Deployment", lambda: self._fresh(deployment))
        claimant = _claimant(deployment)
        claimed = await claim(self._client, claimant, resource_of_class(ReplicaSet), candidates, check)
        is_adopted = any(not is_controlled_by(one.metadata.owner_references, uid) for one in claimed)
        return None if is_adopted else claimed

    def pods(self, replica_set: ReplicaSet) -> Iterable[Pod]:
        """Return the pods of a replica set."""
        return self._caches.pods.by_index(CONTROLLER, replica_set.metadata.uid)

    async def _fresh(self, deployment: Deployment) -> Deployment:
        return await self._client.get(Deployment, deployment.metadata.name, deployment.metadata.namespace)


def _claimant(deployment: Deployment) -> ClaimOwner:
    try:
        selector = label_selector_as_selector(deployment.spec.selector)
    except SelectorError as error:
        where = f"{deployment.metadata.namespace}/{deployment.metadata.name}"
        raise TerminalError(f"deployment {where} has invalid label selector: {error}") from None
    return ClaimOwner(deployment, resource_of_class(Deployment), selector)
