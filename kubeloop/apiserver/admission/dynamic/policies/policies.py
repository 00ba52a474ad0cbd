# SPDX-License-Identifier: Apache-2.0
"""Policies with their bindings, compiled on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kubeloop.api.expressions.admission import CompiledExpression, PolicyExpressions
from kubeloop.api.generated import admissionregistration_v1 as admission_v1
from kubeloop.apiserver.admission.dynamic.match_rules import MatchCriteria, selector_or_everything

MatchResources = admission_v1.MatchResources


def criteria_of(match: MatchResources) -> MatchCriteria:
    """Return the match criteria of MatchResources."""
    return MatchCriteria(
        match.resource_rules,
        selector_or_everything(match.namespace_selector),
        selector_or_everything(match.object_selector),
        match.match_policy != "Exact",
        match.exclude_resource_rules,
        any_resource=True,
    )


@dataclass(frozen=True, eq=False)
class PolicyBinding:
    """Policy binding: match resources, parameters and validation actions."""

    name: str
    spec: Any

    @cached_property
    def criteria(self) -> MatchCriteria | None:
        """Match criteria of the binding; None if it applies to everything that the policy matches."""
        match = self.spec.match_resources
        return None if match is None else criteria_of(match)


@dataclass(frozen=True, eq=False)
class AdmissionPolicy:
    """Common part of validating and mutating policies."""

    name: str
    spec: Any
    bindings: Sequence[PolicyBinding]

    @property
    def ignores_failures(self) -> bool:
        """True if the failure policy is Ignore."""
        return bool(self.spec.failure_policy == "Ignore")

    @cached_property
    def criteria(self) -> MatchCriteria:
        """Match criteria of the policy."""
        return criteria_of(self.spec.match_constraints or MatchResources())

    @cached_property
    def expressions(self) -> PolicyExpressions:
        """Compiler of the policy's expressions, with its variables declared."""
        found = PolicyExpressions(has_params=self.spec.param_kind is not None, has_variables=True)
        for variable in self.spec.variables:
            found.declare(variable.name, variable.expression)
        return found

    @cached_property
    def conditions(self) -> tuple[CompiledExpression, ...]:
        """Compiled match conditions."""
        return tuple(self.expressions.compile_condition(one.expression) for one in self.spec.match_conditions)


class ValidatingPolicy(AdmissionPolicy):
    """ValidatingAdmissionPolicy with its bindings."""

    @cached_property
    def validations(self) -> tuple[tuple[admission_v1.Validation, CompiledExpression, CompiledExpression | None], ...]:
        """Validations, each with its compiled expression and message expression."""
        make = self.expressions
        return tuple(
            (
                one,
                make.compile_condition(one.expression),
                make.compile_message(one.message_expression) if one.message_expression else None,
            )
            for one in self.spec.validations
        )

    @cached_property
    def annotations(self) -> tuple[tuple[str, CompiledExpression], ...]:
        """Audit annotations: keys and compiled value expressions."""
        return tuple(
            (one.key, self.expressions.compile_annotation(one.value_expression.strip()))
            for one in self.spec.audit_annotations
        )


class MutatingPolicy(AdmissionPolicy):
    """MutatingAdmissionPolicy with its bindings."""

    @cached_property
    def mutations(self) -> tuple[tuple[str, CompiledExpression], ...]:
        """Mutations: patch types and compiled expressions."""
        return tuple(
            (one.patch_type, self.expressions.compile_mutation(_patch_text(one).strip(), one.patch_type))
            for one in self.spec.mutations
        )


def _patch_text(mutation: admission_v1.Mutation) -> str:
    patch = mutation.json_patch if mutation.patch_type == "JSONPatch" else mutation.apply_configuration
    return patch.expression if patch is not None else ""


def policies_with_bindings(
    make: Callable[[str, Any, Sequence[PolicyBinding]], Any], policies: Iterable[Any], bindings: Iterable[Any]
) -> Any:
    """Return the policies that have bindings, sorted by name, each with its bindings sorted by name."""
    by_policy: dict[str, list[PolicyBinding]] = {}
    for one in sorted(bindings, key=lambda binding: str(binding.metadata.name)):
        by_policy.setdefault(one.spec.policy_name, []).append(PolicyBinding(one.metadata.name, one.spec))
    ordered = sorted(policies, key=lambda policy: str(policy.metadata.name))
    return tuple(
        make(one.metadata.name, one.spec, by_policy[one.metadata.name])
        for one in ordered
        if one.metadata.name in by_policy
    )
