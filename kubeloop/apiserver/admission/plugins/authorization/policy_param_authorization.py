# SPDX-License-Identifier: Apache-2.0
"""Requires permission to read the parameters of admission policies.

An expression of a policy may show its parameters in a message: without this, whoever writes policies could read all
objects of a cluster. Upstream checks it in the storage of the four kinds.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kubeloop.api import errors
from kubeloop.api.kinds import RESOURCES
from kubeloop.api.meta.field_path import FieldPath, forbidden
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup
from kubeloop.apiserver.authorization import ADMINISTRATORS, UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.request.context import User

_GROUP: Final = "admissionregistration.k8s.io"
_POLICIES: Final = {
    "validatingadmissionpolicybindings": "validatingadmissionpolicies",
    "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
}
_UNKNOWN: Final = (
    'to determine minimum required permissions and user {} does not have "{}" permission for all groups, '
    "versions and resources"
)


class _ParamResource(NamedTuple):
    """Resource of a paramKind, `*` for the parts that are not known, and the reason for that."""

    group: str = "*"
    version: str = "*"
    resource: str = "*"
    problem: str = ""


class PolicyParamAuthorization(AdmissionPlugin):
    """Rejects policies and bindings whose author may not read their parameters."""

    name = "PolicyParamAuthorization"
    resources = frozenset(f"{plural}.{_GROUP}" for pair in _POLICIES.items() for plural in pair)
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, authorizer: UnionAuthorizer, lookup: Lookup) -> None:
        self._authorizer = authorizer
        self._lookup = lookup

    async def validate(self, attempt: Attributes) -> None:
        """Reject a write of a policy or a binding without these permissions."""
        if ADMINISTRATORS in attempt.user.groups:
            return
        if attempt.resource.plural in _POLICIES:
            await self._check_binding(attempt)
        else:
            await self._check_policy(attempt)

    async def _check_policy(self, attempt: Attributes) -> None:
        new: Any = attempt.obj
        old: Any = attempt.old_obj
        kind = new.spec.param_kind
        if kind is None or (old is not None and old.spec.param_kind == kind):
            return
        found = self._resolve(kind)
        asked = AuthorizationAttributes(
            attempt.user, "get", found.group, found.version, found.resource, namespace="*", name="*"
        )
        if not (await self._authorizer.wait_decision(asked)).allowed:
            told = f'must have "get" permission on all objects of the referenced paramKind (kind={kind.kind}, '
            _reject(attempt, "paramKind", f"user {_as_go(attempt.user)} {told}apiVersion={kind.api_version})")

    async def _check_binding(self, attempt: Attributes) -> None:
        """Check a binding at each write: upstream compares pointers, so that none is unchanged."""
        binding: Any = attempt.obj
        ref = binding.spec.param_ref
        if ref is None:
            return
        found = self._resource_of_binding(attempt, binding.spec.policy_name)
        verb = "get" if ref.name else "list"
        asked = AuthorizationAttributes(
            attempt.user, verb, found.group, found.version, found.resource,
            namespace=ref.namespace or "", name=ref.name or "",
        )  # fmt: skip
        if (await self._authorizer.wait_decision(asked)).allowed:
            return
        user = _as_go(attempt.user)
        why = f'user {user} does not have "{verb}" permission on the object referenced by paramRef'
        _reject(attempt, "paramRef", f"{found.problem} {_UNKNOWN.format(user, verb)}" if found.problem else why)

    def _resource_of_binding(self, attempt: Attributes, name: str) -> _ParamResource:
        plural, version = _POLICIES[attempt.resource.plural], attempt.resource.version
        policy = self._lookup.get_object(plural, "", name, _GROUP, version)
        if policy is None:
            return _ParamResource(problem=f"unable to get policy {name}")
        return _ParamResource() if policy.spec.param_kind is None else self._resolve(policy.spec.param_kind)

    def _resolve(self, kind: Any) -> _ParamResource:
        shown = f"&{{{kind.api_version} {kind.kind}}}"
        group, _, version = kind.api_version.rpartition("/")
        if "/" in group:
            return _ParamResource(problem=f"unable to parse paramKind {shown}")
        for one in RESOURCES:
            if (one.group, one.version, one.kind) == (group, version, kind.kind):
                return _ParamResource(group, version, one.plural)
        for definition in self._lookup.list_objects("customresourcedefinitions", "", "apiextensions.k8s.io"):
            spec = definition.spec
            served = {one.name for one in spec.versions if one.served}
            if (spec.group, spec.names.kind) == (group, kind.kind) and version in served:
                return _ParamResource(group, version, spec.names.plural)
        return _ParamResource(group, version, problem=f"unable to resolve paramKind {shown}")


def _reject(attempt: Attributes, field: str, why: str) -> None:
    problem = forbidden(FieldPath("spec").child(field), why)
    obj: Any = attempt.obj
    raise errors.invalid(_GROUP, attempt.resource.kind, obj.metadata.name, [problem])


def _as_go(user: User) -> str:
    """Return the user as Go's %v prints it, which upstream's messages show."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in user.extra)
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
