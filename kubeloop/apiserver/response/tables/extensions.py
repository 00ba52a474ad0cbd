# SPDX-License-Identifier: Apache-2.0
"""Printers of API server extensions: admission, custom resources, API services, flow control."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from kubeloop.api.selectors.objects import go_debug_string
from kubeloop.apiserver.response.tables.model import (
    AGE,
    CREATED_AT,
    NAME,
    Cells,
    Printer,
    column,
    integer_column,
    wide_column,
)
from kubeloop.apiserver.response.tables.text import NONE, UNSET, format_age, has_condition

if TYPE_CHECKING:
    from kubeloop.api.generated.admissionregistration_v1 import (
        MutatingAdmissionPolicy,
        MutatingAdmissionPolicyBinding,
        MutatingWebhookConfiguration,
        ParamKind,
        ParamRef,
        ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
        ValidatingWebhookConfiguration,
    )
    from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
    from kubeloop.api.generated.apiregistration_v1 import APIService
    from kubeloop.api.generated.flowcontrol_v1 import FlowSchema, PriorityLevelConfiguration
    from kubeloop.api.generated.storagemigration_v1 import StorageVersionMigration

# Go's text for a zero time.
_NO_MOMENT = "0001-01-01T00:00:00Z"
_MIGRATION_STATES = ("Running", "Failed", "Succeeded")


def created_at(obj: Any) -> str:
    """Return the creation timestamp as Go prints it."""
    return obj.metadata.creation_timestamp or _NO_MOMENT


def _name_and_creation(obj: Any, _now: datetime) -> Cells:
    return [obj.metadata.name, created_at(obj)]


def _webhook_cells(hooks: MutatingWebhookConfiguration | ValidatingWebhookConfiguration, now: datetime) -> Cells:
    return [hooks.metadata.name, len(hooks.webhooks), format_age(hooks, now)]


def _param_kind(kind: ParamKind | None) -> str:
    return f"{kind.api_version}/{kind.kind}" if kind else UNSET


def _validating_policy_cells(policy: ValidatingAdmissionPolicy, now: datetime) -> Cells:
    return [
        policy.metadata.name,
        len(policy.spec.validations),
        _param_kind(policy.spec.param_kind),
        format_age(policy, now),
    ]


def _mutating_policy_cells(policy: MutatingAdmissionPolicy, now: datetime) -> Cells:
    return [
        policy.metadata.name,
        len(policy.spec.mutations),
        _param_kind(policy.spec.param_kind),
        format_age(policy, now),
    ]


def _param_ref(ref: ParamRef | None) -> str:
    if ref and ref.name:
        return f"{ref.namespace or '*'}/{ref.name}"
    return go_debug_string(ref.selector) if ref and ref.selector else UNSET


def _policy_binding_cells(
    binding: ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding, now: datetime
) -> Cells:
    return [
        binding.metadata.name,
        binding.spec.policy_name,
        _param_ref(binding.spec.param_ref),
        format_age(binding, now),
    ]


def _definition_cells(crd: CustomResourceDefinition, _now: datetime) -> Cells:
    served = (version for version in crd.spec.versions or () if version.served)
    return [
        crd.metadata.name,
        crd.spec.scope,
        ",".join(sorted(version.name + ("(storage)" if version.storage else "") for version in served)),
        created_at(crd),
        crd.spec.group,
        crd.spec.names.kind,
        ",".join(crd.spec.names.short_names),
        has_condition(crd.status.conditions, "Established"),
    ]


def _api_service_availability(service: APIService) -> str:
    available = next((found for found in service.status.conditions if found.type == "Available"), None)
    if available is None:
        return "Unknown"
    if available.status != "True" and available.reason:
        return f"{available.status} ({available.reason})"
    return available.status


def _api_service_cells(service: APIService, now: datetime) -> Cells:
    backend = service.spec.service
    return [
        service.metadata.name,
        f"{backend.namespace}/{backend.name}" if backend else "Local",
        _api_service_availability(service),
        format_age(service, now),
    ]


def _flow_schema_cells(schema: FlowSchema, now: datetime) -> Cells:
    distinguisher = schema.spec.distinguisher_method
    return [
        schema.metadata.name,
        schema.spec.priority_level_configuration.name,
        schema.spec.matching_precedence,
        distinguisher.type if distinguisher else NONE,
        format_age(schema, now),
        next((found.status for found in schema.status.conditions if found.type == "Dangling"), "?"),
    ]


def _flow_schema_order(schema: FlowSchema) -> tuple[int, str]:
    """Return the sort key of a FlowSchema: matching precedence, then name."""
    return schema.spec.matching_precedence, schema.metadata.name


def _priority_level_cells(level: PriorityLevelConfiguration, now: datetime) -> Cells:
    limited = level.spec.limited
    queuing = limited.limit_response.queuing if limited else None
    return [
        level.metadata.name,
        level.spec.type,
        (limited.nominal_concurrency_shares or 0) if limited else NONE,
        *((queuing.queues, queuing.hand_size, queuing.queue_length_limit) if queuing else (NONE, NONE, NONE)),
        format_age(level, now),
    ]


def _migration_cells(migration: StorageVersionMigration, _now: datetime) -> Cells:
    target = migration.spec.resource
    states = [c.type for c in migration.status.conditions if c.status == "True" and c.type in _MIGRATION_STATES]
    return [
        migration.metadata.name,
        f"{target.resource}.{target.group}" if target.group else target.resource,
        states[-1] if states else "Unknown",
    ]


_PARAM_KIND = column("ParamKind", "Kind of the parameter objects.")

# Default printer of kinds that have none of their own.
DEFAULT = Printer(columns=(NAME, CREATED_AT), cells=_name_and_creation, null_without_rows=True)
WEBHOOK_CONFIGURATION = Printer(
    columns=(NAME, integer_column("Webhooks", "Number of webhooks."), AGE), cells=_webhook_cells
)
VALIDATING_ADMISSION_POLICY = Printer(
    columns=(NAME, integer_column("Validations", "Number of validations."), _PARAM_KIND, AGE),
    cells=_validating_policy_cells,
)
MUTATING_ADMISSION_POLICY = Printer(
    columns=(NAME, integer_column("Mutations", "Number of mutations."), _PARAM_KIND, AGE),
    cells=_mutating_policy_cells,
)
ADMISSION_POLICY_BINDING = Printer(
    columns=(
        NAME,
        column("PolicyName", "Name of the bound policy."),
        column("ParamRef", "Reference to the parameter objects."),
        AGE,
    ),
    cells=_policy_binding_cells,
)
CUSTOM_RESOURCE_DEFINITION = Printer(
    columns=(
        NAME,
        column("Scope", "Scope: Namespaced or Cluster."),
        column("Versions", "Served versions."),
        CREATED_AT,
        wide_column("Group", "API group."),
        wide_column("Kind", "Kind."),
        wide_column("ShortNames", "Short names."),
        column("Established", "True if the Established condition is true.", "boolean", wide=True),
    ),
    cells=_definition_cells,
    null_without_rows=True,
)
API_SERVICE = Printer(
    columns=(
        NAME,
        column("Service", "Service behind the API, or Local."),
        column("Available", "Status of the Available condition."),
        AGE,
    ),
    cells=_api_service_cells,
    columns_in_every_event=True,
)
FLOW_SCHEMA = Printer(
    columns=(
        NAME,
        column("PriorityLevel", "Priority level of matching requests."),
        column("MatchingPrecedence", "Matching precedence; lower numbers are tried first."),
        column("DistinguisherMethod", "Method that assigns requests to flows."),
        AGE,
        column("MissingPL", "Status of the Dangling condition."),
    ),
    cells=_flow_schema_cells,
    sort_key=_flow_schema_order,
)
PRIORITY_LEVEL_CONFIGURATION = Printer(
    columns=(
        NAME,
        column("Type", "Type: Limited or Exempt."),
        column("NominalConcurrencyShares", "Nominal concurrency shares."),
        column("Queues", "Number of queues."),
        column("HandSize", "Number of queues per flow."),
        column("QueueLengthLimit", "Maximum number of requests per queue."),
        AGE,
    ),
    cells=_priority_level_cells,
)
STORAGE_VERSION_MIGRATION = Printer(
    columns=(
        column("Name", "Name of the object."),
        column("Resource", "Resource that is migrated."),
        column("Status", "State of the migration."),
    ),
    cells=_migration_cells,
)
