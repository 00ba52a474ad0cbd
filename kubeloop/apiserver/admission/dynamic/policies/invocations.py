# SPDX-License-Identifier: Apache-2.0
"""Selects the policies, bindings and parameters that apply to a write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kubeloop.api import codec, errors
from kubeloop.api.generated.admissionregistration_v1 import ParamKind, ParamRef
from kubeloop.api.kinds import Resource
from kubeloop.api.selectors import label_selector_as_selector
from kubeloop.apiserver.admission.dynamic.match_rules import Matcher, is_namespace
from kubeloop.apiserver.admission.dynamic.policies.policies import AdmissionPolicy, PolicyBinding
from kubeloop.apiserver.admission.dynamic.versioned_attributes import VersionedAttributes
from kubeloop.apiserver.registry.storage import ResourceStorage, StorageRegistry


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
            resource = matcher.resource_for(policy.criteria, subject.attributes)
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
        if binding.criteria is not None and matcher.resource_for(binding.criteria, subject.attributes) is None:
            return
        found = params_for(registry, policy.spec.param_kind, binding.spec.param_ref, subject.namespace)
    except (errors.ApiError, PolicyConfigurationError) as error:
        yield InvocationFailure(policy, binding, f"failed to configure binding: {error}")
        return
    for params in found:
        yield PolicyInvocation(policy, binding, resource, params)


def namespace_of_subject(subject: VersionedAttributes, registry: StorageRegistry) -> Any:
    """Return the Namespace object of a write; None for cluster-scoped writes and for Namespaces themselves."""
    if is_namespace(subject.attributes.resource) or not subject.namespace:
        return None
    found = registry.get_object("namespaces", "", subject.namespace)
    if found is None:
        raise errors.not_found("", "namespaces", subject.namespace)
    return found


class PolicyConfigurationError(Exception):
    """Error for an unusable policy or binding; `binding` is True if the binding is at fault."""

    def __init__(self, message: str, *, binding: bool = True) -> None:
        super().__init__(message)
        self.binding = binding


def param_storage_of(registry: StorageRegistry, kind: ParamKind) -> ResourceStorage:
    """Return the storage of a param kind; raises `PolicyConfigurationError`."""
    for storage in registry.storages():
        if storage.resource.kind == kind.kind and storage.resource.group_version == kind.api_version:
            return storage
    group, _, version = kind.api_version.rpartition("/")
    why = f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind.kind}'"
    raise PolicyConfigurationError(why, binding=False)


def params_for(registry: StorageRegistry, kind: ParamKind | None, ref: ParamRef | None, namespace: str) -> list[Any]:
    """Return the parameters, one per evaluation; [None] without any. Raises `PolicyConfigurationError`."""
    if kind is None:
        return [None]
    storage = param_storage_of(registry, kind)
    if ref is None:
        return [None]
    where = _namespace(storage, ref, namespace)
    if ref.name:
        record = storage.get(where, ref.name)
        found = [] if record is None else [storage.serializer.decode_record(record)]
    else:
        selector = label_selector_as_selector(ref.selector)
        records = storage.store.range(storage.prefix(where)).records
        objects = (storage.serializer.decode_record(record) for record in records)
        found = [obj for obj in objects if selector.matches(obj.metadata.labels or {})]
    if not found and ref.parameter_not_found_action == "Deny":
        raise PolicyConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [codec.to_plain(obj) for obj in found]


def _namespace(storage: ResourceStorage, ref: ParamRef, namespace: str) -> str:
    if not storage.resource.namespaced:
        if ref.namespace:
            raise PolicyConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    where = ref.namespace or namespace
    if not where:
        raise PolicyConfigurationError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return where
