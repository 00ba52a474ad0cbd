"""Resource quota: usage of objects (upstream's evaluators) and the decision on writes.

object ─▶ its kind's meter (usage, scopes, constraints) ─▶ decision: rejected, or the quotas' new usage
"""

from __future__ import annotations

from collections.abc import Callable

from kubeloop.api.quota.decision import Charge, QuotaRefusal, charges_of
from kubeloop.api.quota.meter import Meter
from kubeloop.api.quota.pods import PodMeter
from kubeloop.api.quota.services import ServiceMeter
from kubeloop.api.quota.volume_claims import VolumeClaimMeter

__all__ = ["Charge", "Meter", "QuotaRefusal", "charges_of", "is_metered", "meter_of"]

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
_SPECIAL: dict[str, Callable[[], Meter]] = {
    "persistentvolumeclaims": VolumeClaimMeter,
    "pods": PodMeter,
    "services": ServiceMeter,
}


def is_metered(qualified: str) -> bool:
    """Return True if a namespaced kind, named with its group, can be counted by quotas."""
    return qualified not in _UNMETERED


def meter_of(qualified: str) -> Meter:
    """Return the meter of a kind; the one of ResourceClaims is in `devices`, because it needs other objects."""
    special = _SPECIAL.get(qualified)
    if special is not None:
        return special()
    return Meter(qualified, *((qualified,) if qualified in _LEGACY_NAMES else ()))
