# SPDX-License-Identifier: Apache-2.0
"""Computes a deployment's status: sums over its replica sets and availability. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kubeloop.api.generated.apps_v1 import Deployment, DeploymentStatus, ReplicaSet
from kubeloop.controllers.deployment.conditions import AVAILABLE, condition, with_condition
from kubeloop.controllers.deployment.limits import min_available
from kubeloop.controllers.deployment.replica_sets import ReplicaSets, desired_replicas, total_replicas


def status_of(deployment: Deployment, family: ReplicaSets, now: datetime) -> DeploymentStatus:
    """Compute the status from the replica sets; conditions other than Available are kept."""
    everything = family.all
    available = sum(one.status.available_replicas for one in everything)
    if available >= min_available(deployment):
        verdict = condition(
            AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now
        )  # fmt: skip
    else:
        verdict = condition(
            AVAILABLE, "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now
        )
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(one.status.replicas for one in everything),
        updated_replicas=0 if family.new is None else family.new.status.replicas,
        ready_replicas=sum(one.status.ready_replicas for one in everything),
        available_replicas=available,
        unavailable_replicas=max(total_replicas(everything) - available, 0),
        terminating_replicas=terminating_replicas(everything),
        collision_count=deployment.status.collision_count,
        conditions=with_condition(deployment.status.conditions, verdict),
    )


def terminating_replicas(replica_sets: Iterable[ReplicaSet]) -> int | None:
    """Return the number of terminating pods; None while an observed replica set does not report it."""
    count = 0
    for one in replica_sets:
        told = one.status.terminating_replicas
        if told is None and one.status.observed_generation != 0:
            return None
        count += told or 0
    return count


def is_deployment_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Return True if all desired pods are updated and available and no others are left."""
    wanted = desired_replicas(deployment)
    return (
        status.updated_replicas == wanted
        and status.replicas == wanted
        and status.available_replicas == wanted
        and status.observed_generation >= deployment.metadata.generation
    )
