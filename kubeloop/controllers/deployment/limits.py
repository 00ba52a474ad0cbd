# SPDX-License-Identifier: Apache-2.0
"""Computes maxSurge and maxUnavailable of a rolling update. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeloop.api.generated.apps_v1 import Deployment, RollingUpdateDeployment
from kubeloop.api.scalars.intstr import scaled_value
from kubeloop.controllers.deployment.replica_sets import desired_replicas

ROLLING: Final = "RollingUpdate"
RECREATE: Final = "Recreate"


class RolloutLimits(NamedTuple):
    """Limits of a rolling update, in pods."""

    max_surge: int
    max_unavailable: int


def limits_of(deployment: Deployment) -> RolloutLimits:
    """Resolve maxSurge and maxUnavailable; percentages are of the desired number.

    Surge is rounded up, unavailability down. If both are zero, one pod may be unavailable, or else no rollout could
    make progress. Strategies other than RollingUpdate have no limits, so both are zero.
    """
    strategy = deployment.spec.strategy
    if strategy.type != ROLLING:
        return RolloutLimits(0, 0)
    wanted = desired_replicas(deployment)
    rolling = strategy.rolling_update or RollingUpdateDeployment()
    surge = scaled_value(rolling.max_surge or 0, wanted, round_up=True)
    unavailable = scaled_value(rolling.max_unavailable or 0, wanted, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return RolloutLimits(surge, min(unavailable, wanted))


def max_replicas(deployment: Deployment) -> int:
    """Return the highest number of pods that may exist during a rollout."""
    return desired_replicas(deployment) + limits_of(deployment).max_surge


def min_available(deployment: Deployment) -> int:
    """Return the number of pods that must be available during a rollout."""
    return desired_replicas(deployment) - limits_of(deployment).max_unavailable
