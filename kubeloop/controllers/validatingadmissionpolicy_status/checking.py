"""Which expressions of a policy don't go with the kinds that it is about."""

from __future__ import annotations

from kubeloop.api.expressions.admission_types import Kind, Subject, warnings_about
from kubeloop.api.generated.admissionregistration_v1 import (
    ExpressionWarning,
    ParamKind,
    ValidatingAdmissionPolicySpec,
)
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.validatingadmissionpolicy_status.schemas import PublishedSchemas
from kubeloop.controllers.validatingadmissionpolicy_status.subjects import ServedKinds

_OF_OBJECTS, _OF_PARAMS = 0, 1  # numbers in the names of types, so that one kind as both is two types


class Checker:
    """Asks the server which kinds there are, and what they are like."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._kinds = ServedKinds(client, clock)
        self._schemas = PublishedSchemas(client)

    async def check(self, spec: ValidatingAdmissionPolicySpec) -> tuple[ExpressionWarning, ...]:
        kinds = await self._kinds.of(spec)
        known = [(kind, await self._schemas.of(kind, _OF_OBJECTS)) for kind in kinds]
        subjects = [Subject(kind, declared) for kind, declared in known if declared is not None]
        params = await self._schemas.of(kind_of_params(spec.param_kind), _OF_PARAMS) if spec.param_kind else None
        return warnings_about(spec, subjects, params)


def kind_of_params(params: ParamKind) -> Kind:
    group, _, version = params.api_version.rpartition("/")
    return Kind(group, version, params.kind)
