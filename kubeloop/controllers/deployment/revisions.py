# SPDX-License-Identifier: Apache-2.0
"""Revisions: numbers each rollout and records in a replica set the revisions that it had. Pure.

The deployment's annotations are copied to its new replica set, so that each revision keeps its own, such as its cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.controllers.deployment.replica_sets import age_rank, replicas_of
from kubeloop.controllers.deployment.scaling import DESIRED_REPLICAS, MAX_REPLICAS

REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
ROLLBACK_TO: Final = "deprecated.deployment.rollback.rollbackTo"
# Annotations that describe one object alone and are never copied.
_OWN: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO}
)
_MAX_HISTORY_CHARACTERS: Final = 2000
_NUMBER: Final = re.compile("[+-]?[0-9]{1,19}")
_UNLIMITED: Final = 2**31 - 1


def revision_of(obj: Any) -> int | None:
    """Return the revision of a deployment or replica set: 0 if it is missing, None if it is not a number."""
    text = obj.metadata.annotations.get(REVISION)
    return 0 if text is None else parse_revision(text)


def parse_revision(text: str) -> int | None:
    """Parse a revision; None if it is not a number."""
    return int(text) if _NUMBER.fullmatch(text) else None


def max_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the highest revision."""
    return max((revision_of(one) or 0 for one in replica_sets), default=0)


def previous_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the second highest revision, which precedes the current one; 0 if there is none."""
    known = sorted(number for one in replica_sets if (number := revision_of(one)) is not None)
    return max(known[-2], 0) if len(known) > 1 else 0


def copied_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that are copied between a deployment and its new replica set."""
    return {key: value for key, value in annotations.items() if key not in _OWN}


def own_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that are never copied."""
    return {key: value for key, value in annotations.items() if key in _OWN}


def changed_annotations(deployment: Deployment, new: ReplicaSet, revision: int) -> dict[str, str]:
    """Return the annotations to change in the new replica set, given the revision after all old ones.

    A revision never decreases: it stays above all others even after some of these are deleted. When it rises, the
    former one is added to the history. If the current revision is not a number, nothing is changed.
    """
    known = new.metadata.annotations
    present = revision_of(new) if known.get(REVISION) else 0
    if present is None:
        return {}
    wanted = copied_annotations(deployment.metadata.annotations)
    if present < revision:
        wanted[REVISION] = str(revision)
        if REVISION in known:
            wanted |= _history_with(known[REVISION], known.get(HISTORY, ""))
    return {key: value for key, value in wanted.items() if known.get(key) != value}


def _history_with(revision: str, history: str) -> dict[str, str]:
    """Append a revision to the history and drop the oldest ones that exceed its length."""
    if not history or history.startswith(","):
        return {HISTORY: revision}
    kept = history.split(",")
    while kept and len(",".join((*kept, revision))) > _MAX_HISTORY_CHARACTERS:
        del kept[0]
    return {HISTORY: ",".join((*kept, revision))}


def replica_sets_to_clean_up(deployment: Deployment, old: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the idle old replica sets above the history limit, lowest revision first."""
    limit = deployment.spec.revision_history_limit
    if limit is None or limit == _UNLIMITED:
        return []
    alive = [one for one in old if one.metadata.deletion_timestamp is None]
    excess = len(alive) - limit
    if excess <= 0:
        return []
    by_revision = sorted(alive, key=lambda one: (revision_of(one) or 0, age_rank(one)))
    return [one for one in by_revision[:excess] if _is_idle(one)]


def _is_idle(replica_set: ReplicaSet) -> bool:
    status = replica_set.status
    is_observed = replica_set.metadata.generation <= status.observed_generation
    return replicas_of(replica_set) == 0 and status.replicas == 0 and is_observed
