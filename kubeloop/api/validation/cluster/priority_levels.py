# SPDX-License-Identifier: Apache-2.0
"""Validation of PriorityLevelConfigurations: seats, and the handling of excess requests."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from kubeloop.api.generated import flowcontrol_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import range_message
from kubeloop.api.validation.cluster.flow_schemas import validate_flow_conditions
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last
from kubeloop.api.validation.shared.internal_form import to_internal_form
from kubeloop.api.validation.shared.objectmeta import METADATA
from kubeloop.api.validation.shared.rules import ValidationRules

_SPEC: Final = FieldPath("spec")
_TYPES: Final = frozenset(("Exempt", "Limited"))
_RESPONSES: Final = frozenset(("Queue", "Reject"))
_MAX_QUEUES: Final = 10_000_000
_MAX_HASH_BITS: Final = 60
_KEEP_ZERO: Final = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_CATCH_ALL: Final = flowcontrol_v1.PriorityLevelConfigurationSpec(
    type="Limited",
    limited=flowcontrol_v1.LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=5,
        lendable_percent=0,
        limit_response=flowcontrol_v1.LimitResponse(type="Reject"),
    ),
)


def _validate_level(obj: flowcontrol_v1.PriorityLevelConfiguration) -> FieldErrors:
    errors: FieldErrors = []
    if _KEEP_ZERO in obj.metadata.annotations:
        errors.append(forbidden(METADATA.child("annotations"), f"annotation '{_KEEP_ZERO}' is forbidden"))
    errors += _validate_spec(obj.spec, obj.metadata.name)
    errors += _validate_fixed(obj.spec, obj.metadata.name)
    return sort_generated_last(errors + validate_flow_conditions(obj.status.conditions))


def _validate_spec(spec: flowcontrol_v1.PriorityLevelConfigurationSpec, name: str) -> FieldErrors:
    errors: FieldErrors = []
    if (name == "exempt") != (spec.type == "Exempt"):
        detail = "must be 'Exempt' if and only if `name` is 'exempt'"
        errors.append(invalid(_SPEC.child("type"), spec.type, detail))
    if spec.type and spec.type not in _TYPES:
        errors.append(not_supported(_SPEC.child("type"), spec.type, _TYPES))
    if spec.exempt is not None and spec.type == "Exempt":
        errors += _validate_exempt(spec.exempt, _SPEC.child("exempt"))
    if spec.limited is not None and spec.type == "Limited":
        errors += _validate_limited(spec.limited, _SPEC.child("limited"))
    return errors + mark_generated(_validate_unions(spec))


def _validate_unions(spec: flowcontrol_v1.PriorityLevelConfigurationSpec) -> FieldErrors:
    """Validate which members the discriminators require and forbid, as upstream's declarative validation does.

    The response is validated even if the type of the level forbids it.
    """
    limited, at = spec.limited, _SPEC.child("limited")
    errors: FieldErrors = []
    if spec.exempt is not None and spec.type != "Exempt":
        errors.append(forbidden(_SPEC.child("exempt"), ""))
    if (limited is None) == (spec.type == "Limited"):
        errors.append(required(at) if limited is None else forbidden(at, ""))
    if not spec.type:
        errors.append(required(_SPEC.child("type")))
    if limited is None:
        return errors
    response, at = limited.limit_response, at.child("limitResponse")
    if (response.queuing is None) == (response.type == "Queue"):
        queuing = at.child("queuing")
        errors.append(required(queuing) if response.queuing is None else forbidden(queuing, ""))
    return errors if response.type else [*errors, required(at.child("type"))]


def _validate_fixed(spec: flowcontrol_v1.PriorityLevelConfigurationSpec, name: str) -> FieldErrors:
    """Validate the two mandatory levels, which have fixed specs except for how the exempt one lends seats."""
    if name == "exempt" and msgspec.structs.replace(spec, exempt=None) != _EXEMPT:
        detail = f"spec of '{name}' except the 'spec.exempt' field must equal the fixed value"
    elif name == "catch-all" and spec != _CATCH_ALL:
        detail = f"spec of '{name}' must equal the fixed value"
    else:
        return []
    return [invalid(_SPEC, to_internal_form(spec), detail)]


_EXEMPT: Final = flowcontrol_v1.PriorityLevelConfigurationSpec(type="Exempt")


def _validate_exempt(exempt: flowcontrol_v1.ExemptPriorityLevelConfiguration, path: FieldPath) -> FieldErrors:
    errors = _validate_shares(exempt.nominal_concurrency_shares, path)
    return errors + _validate_lendable(exempt.lendable_percent, path)


def _validate_limited(limited: flowcontrol_v1.LimitedPriorityLevelConfiguration, path: FieldPath) -> FieldErrors:
    errors = _validate_shares(limited.nominal_concurrency_shares, path)
    errors += _validate_response(limited.limit_response, path.child("limitResponse"))
    errors += _validate_lendable(limited.lendable_percent, path)
    borrowed = limited.borrowing_limit_percent
    if borrowed is not None and borrowed < 0:
        detail = "if specified, must be a non-negative integer"
        errors.append(invalid(path.child("borrowingLimitPercent"), borrowed, detail))
    return errors


def _validate_shares(shares: int | None, path: FieldPath) -> FieldErrors:
    if shares is None or shares >= 0:
        return []
    return [invalid(path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer")]


def _validate_lendable(percent: int | None, path: FieldPath) -> FieldErrors:
    if percent is None or 0 <= percent <= 100:
        return []
    return [invalid(path.child("lendablePercent"), percent, range_message(0, 100))]


def _validate_response(response: flowcontrol_v1.LimitResponse, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if response.type and response.type not in _RESPONSES:
        errors.append(not_supported(path.child("type"), response.type, _RESPONSES))
    if response.type == "Queue" and response.queuing is not None:
        errors += _validate_queuing(response.queuing, path.child("queuing"))
    return errors


def _validate_queuing(queuing: flowcontrol_v1.QueuingConfiguration, path: FieldPath) -> FieldErrors:
    queues, hand = queuing.queues, queuing.hand_size
    errors: FieldErrors = []
    if queuing.queue_length_limit <= 0:
        errors.append(invalid(path.child("queueLengthLimit"), queuing.queue_length_limit, "must be positive"))
    if queues <= 0:
        errors.append(invalid(path.child("queues"), queues, "must be positive"))
    elif queues > _MAX_QUEUES:
        errors.append(invalid(path.child("queues"), queues, f"must not be greater than {_MAX_QUEUES}"))
    if hand <= 0:
        errors.append(invalid(path.child("handSize"), hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(path.child("handSize"), hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > _MAX_HASH_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} "
            f"should not be greater than {_MAX_HASH_BITS}"
        )
        errors.append(invalid(path.child("handSize"), hand, detail))
    return errors


def _validate_update(
    new: flowcontrol_v1.PriorityLevelConfiguration, old: flowcontrol_v1.PriorityLevelConfiguration
) -> FieldErrors:
    return _validate_level(new)


def _validate_status(
    new: flowcontrol_v1.PriorityLevelConfiguration, old: flowcontrol_v1.PriorityLevelConfiguration
) -> FieldErrors:
    return validate_flow_conditions(new.status.conditions)


PRIORITY_LEVEL = ValidationRules(_validate_level, _validate_update, {"status": _validate_status})
