# SPDX-License-Identifier: Apache-2.0
"""Performs rollbacks requested by the deprecated annotation of old clients; current kubectl writes the old template."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.api.meta.field_path import quote
from kubeloop.controllers.deployment.replica_sets import ReplicaSets, equal_ignore_hash, without_hash
from kubeloop.controllers.deployment.revisions import (
    ROLLBACK_TO,
    copied_annotations,
    own_annotations,
    parse_revision,
    previous_revision,
    revision_of,
)

replace = msgspec.structs.replace


class RollbackResult(NamedTuple):
    """The deployment to write and the event to record."""

    deployment: Deployment
    type: str
    reason: str
    message: str


def rollback_revision(deployment: Deployment) -> int | None:
    """Return the requested revision, 0 for the previous one; None without a valid request."""
    return parse_revision(deployment.metadata.annotations.get(ROLLBACK_TO, ""))


def roll_back(deployment: Deployment, family: ReplicaSets, asked: int) -> RollbackResult:
    """Return the deployment with the template of another revision; the request is removed in any case."""
    cleared = _without_request(deployment)
    revision = asked or previous_revision(family.all)
    if revision == 0:
        return RollbackResult(cleared, "Warning", "DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
    target = next((one for one in family.all if revision_of(one) == revision), None)
    if target is None:
        message = "Unable to find the revision to rollback to."
        return RollbackResult(cleared, "Warning", "DeploymentRollbackRevisionNotFound", message)
    name, template = quote(deployment.metadata.name), target.spec.template
    if equal_ignore_hash(deployment.spec.template, template):
        message = f"The rollback revision contains the same template as current deployment {name}"
        return RollbackResult(cleared, "Warning", "DeploymentRollbackTemplateUnchanged", message)
    meta = template.metadata
    template = replace(template, metadata=replace(meta, labels=without_hash(meta.labels)))
    # The annotations of the revision are restored with it.
    annotations = own_annotations(cleared.metadata.annotations) | copied_annotations(target.metadata.annotations)
    done = replace(
        cleared,
        metadata=replace(cleared.metadata, annotations=annotations),
        spec=replace(cleared.spec, template=template),
    )
    return RollbackResult(done, "Normal", "DeploymentRollback", f"Rolled back deployment {name} to revision {revision}")


def _without_request(deployment: Deployment) -> Deployment:
    meta = deployment.metadata
    annotations = {key: value for key, value in meta.annotations.items() if key != ROLLBACK_TO}
    return replace(deployment, metadata=replace(meta, annotations=annotations))
