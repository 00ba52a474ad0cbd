"""What objects take of a namespace's quotas, and whether it still fits.

object ─▶ its kind's meter (usage, scopes, what must be stated) ─▶ decision: refused, or the quotas' new use
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
# Kinds that were counted under their plain names before there was `count/`.
_LEGACY_NAMES = frozenset(("configmaps", "replicationcontrollers", "resourcequotas", "secrets"))
_SPECIAL: dict[str, Callable[[], Meter]] = {
    "persistentvolumeclaims": VolumeClaimMeter,
    "pods": PodMeter,
    "services": ServiceMeter,
}


def is_metered(qualified: str) -> bool:
    """Whether a namespaced kind, named with its group, can be counted at all."""
    return qualified not in _UNMETERED


def meter_of(qualified: str) -> Meter:
    """The meter of a kind; claims of devices need more than themselves and have theirs in `devices`."""
    special = _SPECIAL.get(qualified)
    if special is not None:
        return special()
    return Meter(qualified, *((qualified,) if qualified in _LEGACY_NAMES else ()))
