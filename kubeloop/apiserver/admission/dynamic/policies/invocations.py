"""Selects the policies, bindings and parameters that apply to a write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission.dynamic.match_rules import Matcher, is_namespace
from kubeloop.apiserver.admission.dynamic.policies.params import PolicyConfigurationError, param_storage_of, params_for
from kubeloop.apiserver.admission.dynamic.policies.policies import AdmissionPolicy, PolicyBinding
from kubeloop.apiserver.admission.dynamic.versioned_attributes import VersionedAttributes
from kubeloop.apiserver.registry.storage import StorageRegistry


class PolicyInvocation(NamedTuple):
    """One evaluation of a policy; `resource` is the version in which it sees the write."""

    policy: Any
    binding: PolicyBinding
    resource: Resource
    params: Any


class InvocationFailure(NamedTuple):
    """Error that prevents the evaluation of a policy or of one of its bindings."""

    policy: AdmissionPolicy
    binding: PolicyBinding | None
    message: str


def invocations(
    policies: Sequence[AdmissionPolicy], subject: VersionedAttributes, matcher: Matcher, registry: StorageRegistry
) -> Iterator[PolicyInvocation | InvocationFailure]:
    """Yield the evaluations for a write, in the order of policies, bindings and parameters."""
    for policy in policies:
        try:
            resource = matcher.resource_for(policy.criteria, subject.attempt)
            if resource is None:
                continue
            if policy.spec.param_kind is not None:
                param_storage_of(registry, policy.spec.param_kind)
        except (errors.ApiError, PolicyConfigurationError) as error:
            yield InvocationFailure(policy, None, f"failed to configure policy: {error}")
            continue
        for binding in policy.bindings:
            yield from _invocations_of_binding(policy, binding, resource, subject, (matcher, registry))


def _invocations_of_binding(
    policy: AdmissionPolicy,
    binding: PolicyBinding,
    resource: Resource,
    subject: VersionedAttributes,
    within: tuple[Matcher, StorageRegistry],
) -> Iterator[PolicyInvocation | InvocationFailure]:
    matcher, registry = within
    try:
        if binding.criteria is not None and matcher.resource_for(binding.criteria, subject.attempt) is None:
            return
        found = params_for(registry, policy.spec.param_kind, binding.spec.param_ref, subject.namespace)
    except (errors.ApiError, PolicyConfigurationError) as error:
        yield InvocationFailure(policy, binding, f"failed to configure binding: {error}")
        return
    for params in found:
        yield PolicyInvocation(policy, binding, resource, params)


def namespace_of_subject(subject: VersionedAttributes, registry: StorageRegistry) -> Any:
    """Return the Namespace object of a write; None for cluster-scoped writes and for Namespaces themselves."""
    if is_namespace(subject.attempt.resource) or not subject.namespace:
        return None
    found = registry.find("namespaces", "", subject.namespace)
    if found is None:
        raise errors.not_found("", "namespaces", subject.namespace)
    return found
