# SPDX-License-Identifier: Apache-2.0
"""Defaults of deployments, replica sets, stateful sets and daemon sets."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.pods.pod import default_pod_spec
from kubeloop.api.defaults.storage import default_persistent_volume_claim
from kubeloop.api.generated.apps_v1 import (
    DaemonSet,
    DaemonSetUpdateStrategy,
    Deployment,
    DeploymentStrategy,
    ReplicaSet,
    RollingUpdateDaemonSet,
    RollingUpdateDeployment,
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetUpdateStrategy,
)

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_REVISION_HISTORY_LIMIT = 10
_PROGRESS_DEADLINE_SECONDS = 600
_RETAIN_CLAIMS = StatefulSetPersistentVolumeClaimRetentionPolicy(when_deleted="Retain", when_scaled="Retain")


def default_deployment(deployment: Deployment) -> None:
    """Apply the defaults of a Deployment."""
    spec = deployment.spec
    if spec.replicas is None:
        force_setattr(spec, "replicas", 1)
    _default_rollout(spec.strategy)
    if spec.revision_history_limit is None:
        force_setattr(spec, "revision_history_limit", _REVISION_HISTORY_LIMIT)
    if spec.progress_deadline_seconds is None:
        force_setattr(spec, "progress_deadline_seconds", _PROGRESS_DEADLINE_SECONDS)
    default_pod_spec(spec.template.spec)


def default_replica_set(replica_set: ReplicaSet) -> None:
    """Apply the defaults of a ReplicaSet."""
    if replica_set.spec.replicas is None:
        force_setattr(replica_set.spec, "replicas", 1)
    default_pod_spec(replica_set.spec.template.spec)


def default_daemon_set(daemon_set: DaemonSet) -> None:
    """Apply the defaults of a DaemonSet."""
    spec = daemon_set.spec
    _default_daemon_rollout(spec.update_strategy)
    if spec.revision_history_limit is None:
        force_setattr(spec, "revision_history_limit", _REVISION_HISTORY_LIMIT)
    default_pod_spec(spec.template.spec)
    annotations = daemon_set.metadata.annotations
    if TEMPLATE_GENERATION not in annotations:
        # Upstream keeps the number in the internal spec, and shows it as an annotation in every version.
        force_setattr(daemon_set.metadata, "annotations", {**annotations, TEMPLATE_GENERATION: "0"})


def default_stateful_set(stateful_set: StatefulSet) -> None:
    """Apply the defaults of a StatefulSet."""
    spec = stateful_set.spec
    if not spec.pod_management_policy:
        force_setattr(spec, "pod_management_policy", "OrderedReady")
    _default_stateful_rollout(spec.update_strategy)
    _default_claim_retention(stateful_set)
    if spec.replicas is None:
        force_setattr(spec, "replicas", 1)
    if spec.revision_history_limit is None:
        force_setattr(spec, "revision_history_limit", _REVISION_HISTORY_LIMIT)
    default_pod_spec(spec.template.spec)
    for claim in spec.volume_claim_templates:
        default_persistent_volume_claim(claim)


def _default_rollout(strategy: DeploymentStrategy) -> None:
    if not strategy.type:
        force_setattr(strategy, "type", "RollingUpdate")
    if strategy.type != "RollingUpdate":
        return
    rolling = strategy.rolling_update
    if rolling is None:
        rolling = RollingUpdateDeployment()
        force_setattr(strategy, "rolling_update", rolling)
    if rolling.max_unavailable is None:
        force_setattr(rolling, "max_unavailable", "25%")
    if rolling.max_surge is None:
        force_setattr(rolling, "max_surge", "25%")


def _default_daemon_rollout(strategy: DaemonSetUpdateStrategy) -> None:
    if not strategy.type:
        force_setattr(strategy, "type", "RollingUpdate")
    rolling = strategy.rolling_update
    in_use = strategy.type == "RollingUpdate"
    if rolling is None:
        if not in_use:
            return
        rolling = RollingUpdateDaemonSet()
        force_setattr(strategy, "rolling_update", rolling)
    if rolling.max_unavailable is None:
        # Parameters of a strategy that is not in use are zeros, not absent.
        force_setattr(rolling, "max_unavailable", 1 if in_use else 0)
    if rolling.max_surge is None:
        force_setattr(rolling, "max_surge", 0)


def _default_stateful_rollout(strategy: StatefulSetUpdateStrategy) -> None:
    # Unlike the other workloads, an explicit RollingUpdate without parameters stays without them.
    if not strategy.type:
        force_setattr(strategy, "type", "RollingUpdate")
        if strategy.rolling_update is None:
            force_setattr(strategy, "rolling_update", RollingUpdateStatefulSetStrategy())
    rolling = strategy.rolling_update
    if strategy.type != "RollingUpdate" or rolling is None:
        return
    if rolling.partition is None:
        force_setattr(rolling, "partition", 0)
    if rolling.max_unavailable is None:
        force_setattr(rolling, "max_unavailable", 1)


def _default_claim_retention(stateful_set: StatefulSet) -> None:
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    if policy is None:
        force_setattr(stateful_set.spec, "persistent_volume_claim_retention_policy", _RETAIN_CLAIMS)
        return
    if not policy.when_deleted:
        force_setattr(policy, "when_deleted", "Retain")
    if not policy.when_scaled:
        force_setattr(policy, "when_scaled", "Retain")
