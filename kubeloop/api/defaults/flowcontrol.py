# SPDX-License-Identifier: Apache-2.0
"""Defaults of API priority and fairness: flow schemas and priority levels."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.flowcontrol_v1 import (
    ExemptPriorityLevelConfiguration,
    FlowSchema,
    LimitedPriorityLevelConfiguration,
    PriorityLevelConfiguration,
    QueuingConfiguration,
)

_LIMITED_SHARES = 30
_EXEMPT_SHARES = 0


def default_flow_schema(schema: FlowSchema) -> None:
    """Apply the defaults of a FlowSchema."""
    if not schema.spec.matching_precedence:
        force_setattr(schema.spec, "matching_precedence", 1000)


def default_priority_level(level: PriorityLevelConfiguration) -> None:
    """Apply the defaults of a PriorityLevelConfiguration."""
    if level.spec.limited is not None:
        _default_shares(level.spec.limited, _LIMITED_SHARES)
        if level.spec.limited.limit_response.queuing is not None:
            _default_queuing(level.spec.limited.limit_response.queuing)
    if level.spec.exempt is not None:
        _default_shares(level.spec.exempt, _EXEMPT_SHARES)


def _default_shares(
    configuration: LimitedPriorityLevelConfiguration | ExemptPriorityLevelConfiguration, shares: int
) -> None:
    if configuration.nominal_concurrency_shares is None:
        force_setattr(configuration, "nominal_concurrency_shares", shares)
    if configuration.lendable_percent is None:
        force_setattr(configuration, "lendable_percent", 0)


def _default_queuing(queuing: QueuingConfiguration) -> None:
    if not queuing.hand_size:
        force_setattr(queuing, "hand_size", 8)
    if not queuing.queues:
        force_setattr(queuing, "queues", 64)
    if not queuing.queue_length_limit:
        force_setattr(queuing, "queue_length_limit", 50)
