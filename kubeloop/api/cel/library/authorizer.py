# SPDX-License-Identifier: Apache-2.0
"""CEL authorizer library: `authorizer.group('apps').resource('deployments').check('create').allowed()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, ClassVar, Final

from kubeloop.api.cel.check.types import BOOL, STRING, Type, opaque
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import STRING_FACTOR, function, method
from kubeloop.api.cel.values import CelError, size_of
from kubeloop.api.meta.name_rules import check_dns1123_label, check_dns1123_subdomain

AUTHORIZER: Final = opaque("kubernetes.authorization.Authorizer")
PATH_CHECK: Final = opaque("kubernetes.authorization.PathCheck")
GROUP_CHECK: Final = opaque("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = opaque("kubernetes.authorization.ResourceCheck")
DECISION: Final = opaque("kubernetes.authorization.Decision")
_CHECK_COST: Final = 350_000  # so that an expression can check twice
_REQUIREMENT_COST: Final = 50


@dataclass(frozen=True, slots=True)
class CelDecision:
    """Result of an authorization check; an error is reported separately and allows nothing."""

    allowed: bool
    reason: str = ""
    error: str = ""
    cel_type: ClassVar[Type] = DECISION


@dataclass(frozen=True, slots=True)
class CelAuthorizer:
    """Authorizer for the requesting user, or for a service account given by namespace and name."""

    decide: Callable[[PathCheck | ResourceCheck, str], CelDecision] = field(compare=False)
    service_account: tuple[str, str] | None = None
    cel_type: ClassVar[Type] = AUTHORIZER


@dataclass(frozen=True, slots=True)
class PathCheck:
    """Check of a non-resource path."""

    authorizer: CelAuthorizer
    path: str
    cel_type: ClassVar[Type] = PATH_CHECK


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """API group, the first step of a resource check."""

    authorizer: CelAuthorizer
    group: str
    cel_type: ClassVar[Type] = GROUP_CHECK


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    """Check of a resource and the selected objects."""

    authorizer: CelAuthorizer
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    cel_type: ClassVar[Type] = RESOURCE_CHECK


def _path(one: CelAuthorizer, path: str) -> PathCheck:
    if not path.strip():
        raise CelError("path must not be empty")
    return PathCheck(one, path)


def _service_account(one: CelAuthorizer, namespace: str, name: str) -> CelAuthorizer:
    if check_dns1123_subdomain(name):
        raise CelError("Invalid service account name")
    if check_dns1123_label(namespace):
        raise CelError("Invalid service account namespace")
    return replace(one, service_account=(namespace, name))


def _resource(one: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(one.authorizer, one.group, resource)


def _check(one: PathCheck | ResourceCheck, verb: str) -> CelDecision:
    return one.authorizer.decide(one, verb)


def _narrowed(name: str, attribute: str) -> tuple[Overload, ...]:
    def narrow(one: ResourceCheck, value: str) -> ResourceCheck:
        changed: dict[str, Any] = {attribute: value}
        return replace(one, **changed)

    return (method(name, (RESOURCE_CHECK, STRING), RESOURCE_CHECK, narrow, _selecting if "elector" in name else None),)


def _checking(_: tuple[Any, ...]) -> int:
    return _CHECK_COST


def _selecting(args: tuple[Any, ...]) -> int:
    size = size_of(args[1])
    return 10 + ceil(size * STRING_FACTOR) + ceil(size / 2) * _REQUIREMENT_COST


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "path": (method("authorizer_path", (AUTHORIZER, STRING), PATH_CHECK, _path),),
    "group": (method("authorizer_group", (AUTHORIZER, STRING), GROUP_CHECK, GroupCheck),),
    "serviceAccount": (
        method("authorizer_serviceaccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _service_account),
    ),
    "resource": (method("groupcheck_resource", (GROUP_CHECK, STRING), RESOURCE_CHECK, _resource),),
    "subresource": _narrowed("resourcecheck_subresource", "subresource"),
    "namespace": _narrowed("resourcecheck_namespace", "namespace"),
    "name": _narrowed("resourcecheck_name", "name"),
    "fieldSelector": _narrowed("authorizer_fieldselector", "field_selector"),
    "labelSelector": _narrowed("authorizer_labelselector", "label_selector"),
    "check": (
        method("pathcheck_check", (PATH_CHECK, STRING), DECISION, _check, _checking),
        method("resourcecheck_check", (RESOURCE_CHECK, STRING), DECISION, _check, _checking),
    ),
    "errored": (method("decision_errored", (DECISION,), BOOL, lambda one: bool(one.error)),),
    "error": (method("decision_error", (DECISION,), STRING, lambda one: one.error),),
    "allowed": (method("decision_allowed", (DECISION,), BOOL, lambda one: one.allowed),),
    "reason": (method("decision_reason", (DECISION,), STRING, lambda one: one.reason),),
}

# For policies that change objects: a key as JSON pointers write it.
JSON_PATCH_FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "jsonpatch.escapeKey": (
        function("string_jsonpatch_escapeKey_string", (STRING,), STRING,
                 lambda key: key.replace("~", "~0").replace("/", "~1"),
                 lambda args: ceil(size_of(args[0]) * STRING_FACTOR)),
    ),
}  # fmt: skip
