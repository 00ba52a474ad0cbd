# SPDX-License-Identifier: Apache-2.0
"""Builds the new replica set for a deployment's current template. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet, ReplicaSetSpec
from kubeloop.api.generated.meta_v1 import LabelSelector, ObjectMeta
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.deployment.limits import ROLLING
from kubeloop.controllers.deployment.replica_sets import HASH_LABEL, ReplicaSets, desired_replicas
from kubeloop.controllers.deployment.revisions import REVISION, copied_annotations
from kubeloop.controllers.deployment.rolling_update import new_replicas
from kubeloop.controllers.deployment.scaling import size_annotations
from kubeloop.controllers.shared.ownership.template_hash import template_hash
from kubeloop.runtime.objects.owner_references import controller_reference

_MAX_NAME: Final = 253

replace = msgspec.structs.replace


def new_replica_set(deployment: Deployment, family: ReplicaSets, revision: int) -> ReplicaSet:
    """Build the replica set from the template alone, so that a retry builds the same; a hash label marks its pods."""
    spec, meta = deployment.spec, deployment.metadata
    digest = template_hash(spec.template, deployment.status.collision_count)
    of_template = spec.template.metadata
    selector = spec.selector or LabelSelector()
    labels = {**of_template.labels, HASH_LABEL: digest}
    annotations = copied_annotations(meta.annotations) | size_annotations(deployment) | {REVISION: str(revision)}
    is_rolling = spec.strategy.type == ROLLING
    return ReplicaSet(
        metadata=ObjectMeta(
            name=replica_set_name(meta.name, digest),
            namespace=meta.namespace,
            labels=labels,
            annotations=annotations,
            owner_references=(controller_reference(deployment, resource_of_class(Deployment)),),
        ),
        spec=ReplicaSetSpec(
            replicas=new_replicas(deployment, family) if is_rolling else desired_replicas(deployment),
            min_ready_seconds=spec.min_ready_seconds,
            selector=replace(selector, match_labels={**selector.match_labels, HASH_LABEL: digest}),
            template=replace(spec.template, metadata=replace(of_template, labels=labels)),
        ),
    )


def replica_set_name(deployment: str, digest: str) -> str:
    """Join the deployment's name, truncated if necessary, and the hash of the template."""
    return f"{deployment[: _MAX_NAME - 1 - len(digest)]}-{digest}"
