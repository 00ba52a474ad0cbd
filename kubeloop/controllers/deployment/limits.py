"""How far a rolling update may go beyond the wanted number of pods, and how far below it. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeloop.api.generated.apps_v1 import Deployment, RollingUpdateDeployment
from kubeloop.api.scalars.intstr import scaled_value
from kubeloop.controllers.deployment.replica_sets import wanted_by

ROLLING: Final = "RollingUpdate"
RECREATE: Final = "Recreate"


class Limits(NamedTuple):
    """In pods."""

    surge: int
    unavailable: int


def limits_of(deployment: Deployment) -> Limits:
    """Percentages are of the wanted number: surge is rounded up, unavailability down. Both zero means one unavailable,
    because else nothing could ever move. Other strategies have no leeway.
    """
    strategy = deployment.spec.strategy
    if strategy.type != ROLLING:
        return Limits(0, 0)
    wanted = wanted_by(deployment)
    rolling = strategy.rolling_update or RollingUpdateDeployment()
    surge = scaled_value(rolling.max_surge or 0, wanted, round_up=True)
    unavailable = scaled_value(rolling.max_unavailable or 0, wanted, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Limits(surge, min(unavailable, wanted))


def most_pods(deployment: Deployment) -> int:
    """How many pods there may be during a rollout."""
    return wanted_by(deployment) + limits_of(deployment).surge


def fewest_available(deployment: Deployment) -> int:
    """How many pods have to be available during a rollout."""
    return wanted_by(deployment) - limits_of(deployment).unavailable
