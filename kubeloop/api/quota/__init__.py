# SPDX-License-Identifier: Apache-2.0
"""Resource quota: usage of objects (upstream's evaluators) and the decision on writes.

object ─▶ its kind's meter (usage, scopes, constraints) ─▶ decision: rejected, or the quotas' new usage
"""

from __future__ import annotations

from collections.abc import Callable

from kubeloop.api.quota.decision import QuotaExceeded, QuotaRequest, QuotaUsage, UncoveredScopes, check_request
from kubeloop.api.quota.evaluator import QuotaEvaluator, ServiceEvaluator, VolumeClaimEvaluator
from kubeloop.api.quota.pods import PodEvaluator

__all__ = [
    "QuotaEvaluator",
    "QuotaExceeded",
    "QuotaRequest",
    "QuotaUsage",
    "UncoveredScopes",
    "check_request",
    "evaluator_of",
    "has_evaluator",
]

# Reviews and bindings are not stored, and events were never counted.
_UNMETERED = frozenset(
    (
        "bindings",
        "events",
        "events.events.k8s.io",
        "localsubjectaccessreviews.authorization.k8s.io",
    )
)
# Kinds that were counted by plain name before `count/` existed.
_LEGACY_NAMES = frozenset(("configmaps", "replicationcontrollers", "resourcequotas", "secrets"))
_SPECIAL: dict[str, Callable[[], QuotaEvaluator]] = {
    "persistentvolumeclaims": VolumeClaimEvaluator,
    "pods": PodEvaluator,
    "services": ServiceEvaluator,
}


def has_evaluator(qualified: str) -> bool:
    """Return True if a namespaced kind, named with its group, can be counted by quotas."""
    return qualified not in _UNMETERED


def evaluator_of(qualified: str) -> QuotaEvaluator:
    """Return the meter of a kind; the one of ResourceClaims is in `devices`, because it needs other objects."""
    special = _SPECIAL.get(qualified)
    if special is not None:
        return special()
    return QuotaEvaluator(qualified, *((qualified,) if qualified in _LEGACY_NAMES else ()))
