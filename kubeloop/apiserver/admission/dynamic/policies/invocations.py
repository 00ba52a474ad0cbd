"""Selects the policies, bindings and parameters that apply to a write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission.dynamic.match_rules import Matcher, is_namespace
from kubeloop.apiserver.admission.dynamic.policies.params import Misconfigured, params_for, storage_of
from kubeloop.apiserver.admission.dynamic.policies.policies import Binding, Policy
from kubeloop.apiserver.admission.dynamic.versioned_attributes import Subject
from kubeloop.apiserver.registry.storage import Registry


class Invocation(NamedTuple):
    """One evaluation of a policy; `resource` is the version in which it sees the write."""

    policy: Any
    binding: Binding
    resource: Resource
    params: Any


class Failure(NamedTuple):
    """Error that prevents the evaluation of a policy or of one of its bindings."""

    policy: Policy
    binding: Binding | None
    message: str


def invocations(
    policies: Sequence[Policy], subject: Subject, matcher: Matcher, registry: Registry
) -> Iterator[Invocation | Failure]:
    """Yield the evaluations for a write, in the order of policies, bindings and parameters."""
    for policy in policies:
        try:
            resource = matcher.resource_for(policy.criteria, subject.attempt)
            if resource is None:
                continue
            if policy.spec.param_kind is not None:
                storage_of(registry, policy.spec.param_kind)
        except (errors.ApiError, Misconfigured) as error:
            yield Failure(policy, None, f"failed to configure policy: {error}")
            continue
        for binding in policy.bindings:
            yield from _bound(policy, binding, resource, subject, (matcher, registry))


def _bound(
    policy: Policy, binding: Binding, resource: Resource, subject: Subject, within: tuple[Matcher, Registry]
) -> Iterator[Invocation | Failure]:
    matcher, registry = within
    try:
        if binding.criteria is not None and matcher.resource_for(binding.criteria, subject.attempt) is None:
            return
        found = params_for(registry, policy.spec.param_kind, binding.spec.param_ref, subject.namespace)
    except (errors.ApiError, Misconfigured) as error:
        yield Failure(policy, binding, f"failed to configure binding: {error}")
        return
    for params in found:
        yield Invocation(policy, binding, resource, params)


def namespace_of_subject(subject: Subject, registry: Registry) -> Any:
    """Return the Namespace object of a write; None for cluster-scoped writes and for Namespaces themselves."""
    if is_namespace(subject.attempt.resource) or not subject.namespace:
        return None
    found = registry.find("namespaces", "", subject.namespace)
    if found is None:
        raise errors.not_found("", "namespaces", subject.namespace)
    return found
