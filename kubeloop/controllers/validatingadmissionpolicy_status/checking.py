"""Type-checks the expressions of a policy against the kinds that it matches."""

from __future__ import annotations

from kubeloop.api.expressions.admission_types import MatchedKind, PolicyGVK, type_check_policy
from kubeloop.api.generated.admissionregistration_v1 import (
    ExpressionWarning,
    ParamKind,
    ValidatingAdmissionPolicySpec,
)
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.validatingadmissionpolicy_status.schemas import PublishedSchemas
from kubeloop.controllers.validatingadmissionpolicy_status.subjects import ServedKinds

_OF_OBJECTS, _OF_PARAMS = 0, 1  # numbers in type names, so that a kind in both roles is two types


class PolicyTypeChecker:
    """Type checker with the kinds and schemas that the server publishes."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._kinds = ServedKinds(client, clock)
        self._schemas = PublishedSchemas(client)

    async def check(self, spec: ValidatingAdmissionPolicySpec) -> tuple[ExpressionWarning, ...]:
        """Return the warnings about a policy."""
        kinds = await self._kinds.of(spec)
        known = [(kind, await self._schemas.of(kind, _OF_OBJECTS)) for kind in kinds]
        subjects = [MatchedKind(kind, declared) for kind, declared in known if declared is not None]
        params = await self._schemas.of(kind_of_params(spec.param_kind), _OF_PARAMS) if spec.param_kind else None
        return type_check_policy(spec, subjects, params)


def kind_of_params(params: ParamKind) -> PolicyGVK:
    """Return the kind of a policy's parameters."""
    group, _, version = params.api_version.rpartition("/")
    return PolicyGVK(group, version, params.kind)
