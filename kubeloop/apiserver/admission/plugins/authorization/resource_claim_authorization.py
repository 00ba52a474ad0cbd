# SPDX-License-Identifier: Apache-2.0
"""Permissions on devices: admin access in a namespace, allocation of claims, and device status.

Upstream does this in the storage of claims, with validation: hence the rejections are field errors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kubeloop.api import errors
from kubeloop.api.meta.field_path import FieldError, FieldPath, forbidden
from kubeloop.api.meta.name_rules import check_dns1123_subdomain
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, forbidden_error

if TYPE_CHECKING:
    from kubeloop.api.generated.resource_v1 import AllocatedDeviceStatus, ResourceClaimStatus

_GROUP: Final = "resource.k8s.io"
_CLAIMS: Final = f"resourceclaims.{_GROUP}"
_LABEL: Final = "resource.kubernetes.io/admin-access"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_VERBS: Final = {"PATCH": "patch", "PUT": "update"}


def _raise_invalid(attempt: Attributes, found: Sequence[FieldError]) -> None:
    if found:
        raise errors.invalid(_GROUP, attempt.resource.kind, attempt.name, found)


class DeviceAdminAccess(AdmissionPlugin):
    """Allows admin access to devices only in namespaces with the admin-access label."""

    name = "DeviceAdminAccess"
    resources = frozenset({_CLAIMS, f"resourceclaimtemplates.{_GROUP}"})
    subresources = frozenset({"", "status"})
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def validate(self, attempt: Attributes) -> None:
        """Reject a request or allocation with admin access in any other namespace."""
        if attempt.subresource:
            path = _admin_access_granted(attempt.obj) if _admin_access_granted(attempt.old_obj) is None else None
        else:
            path = _admin_access_requested(attempt.obj) if attempt.operation == "CREATE" else None
        if path is None:
            return
        namespace = self._lookup.get_object("namespaces", "", attempt.namespace)
        if namespace is None or namespace.metadata.labels.get(_LABEL) != "true":
            why = f"admin access to devices requires the `{_LABEL}: true` label on the containing namespace"
            _raise_invalid(attempt, [forbidden(path, why)])


def _admin_access_requested(obj: Any) -> FieldPath | None:
    spec = getattr(obj.spec, "spec", obj.spec)  # a template has the claim's spec nested in its own
    for index, one in enumerate(spec.devices.requests or ()):
        asked = getattr(one, "exactly", one)  # the first versions have no `exactly` field
        if asked is not None and asked.admin_access:
            return FieldPath("spec").child("devices", "requests").index(index).child("adminAccess")
    return None


def _admin_access_granted(claim: Any) -> FieldPath | None:
    allocation = claim.status.allocation
    for index, one in enumerate(allocation.devices.results if allocation is not None else ()):
        if one.admin_access:
            return FieldPath("status").child("allocation", "devices", "results").index(index).child("adminAccess")
    return None


class ResourceClaimStatusAuthorization(AdmissionPlugin):
    """Requires permission to bind claims, or on the drivers whose device status changes, for status writes."""

    name = "ClaimStatusRights"
    resources = frozenset({_CLAIMS})
    subresources = frozenset({"status"})
    operations = frozenset({"UPDATE"})

    def __init__(self, authorizer: UnionAuthorizer) -> None:
        self._authorizer = authorizer

    async def validate(self, attempt: Attributes) -> None:
        """Reject a status write without these permissions."""
        assert attempt.obj is not None
        assert attempt.old_obj is not None
        binding = [error async for error in self._binding(attempt)]
        _raise_invalid(attempt, binding + [error async for error in self._devices(attempt)])

    async def _binding(self, attempt: Attributes) -> AsyncIterator[FieldError]:
        new, old = _statuses(attempt)
        if (new.allocation, new.reserved_for) == (old.allocation, old.reserved_for):
            return
        verb = _VERBS.get(attempt.method, "update")
        asked = AuthorizationAttributes(
            attempt.user, verb, _GROUP, attempt.resource.version, "resourceclaims", "binding"
        )
        decision = await self._authorizer.wait_decision(asked)
        if not decision.allowed:
            what = "changing status.allocation or status.reservedFor requires"
            told = f'{what} resource="resourceclaims/binding", verb="{verb}" permission'
            yield forbidden(
                FieldPath("status").child("allocation"), f"{told}: {forbidden_error(asked, decision.reason)}"
            )

    async def _devices(self, attempt: Attributes) -> AsyncIterator[FieldError]:
        """Yield errors for changed device status; a claim without allocation is not checked."""
        new, old = _statuses(attempt)
        if new.allocation is None:
            return
        verb = _VERBS.get(attempt.method, "update")
        verbs = [f"arbitrary-node:{verb}"]
        if _is_on_node(attempt, _node_of(new)):
            verbs.insert(0, f"associated-node:{verb}")
        for driver in sorted(_changed_drivers(new, old)):
            questions = [
                AuthorizationAttributes(
                    attempt.user, each, _GROUP, attempt.resource.version, "resourceclaims", "driver",
                    attempt.namespace, driver,
                )
                for each in verbs
            ]  # fmt: skip
            answers = [await self._authorizer.wait_decision(one) for one in questions]
            if not any(one.allowed for one in answers):
                told = f'requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission'
                why = forbidden_error(questions[0], answers[0].reason)
                yield forbidden(FieldPath("status").child("devices"), f"changing status.devices {told}: {why}")


def _statuses(attempt: Attributes) -> tuple[ResourceClaimStatus, ResourceClaimStatus]:
    new: Any = attempt.obj
    old: Any = attempt.old_obj
    return new.status, old.status


def _changed_drivers(new: ResourceClaimStatus, old: ResourceClaimStatus) -> set[str]:
    """Return the drivers of devices whose status differs."""

    def by_key(devices: Sequence[AllocatedDeviceStatus]) -> dict[tuple[str, str, str, str], AllocatedDeviceStatus]:
        return {(one.driver, one.pool, one.device, one.share_id or ""): one for one in devices}

    after, before = by_key(new.devices), by_key(old.devices)
    return {key[0] for key in after.keys() | before.keys() if after.get(key) != before.get(key)}


def _node_of(status: ResourceClaimStatus) -> str:
    """Return the node that the allocation is restricted to; empty if it may be more than one."""
    selector = status.allocation.node_selector if status.allocation is not None else None
    terms = selector.node_selector_terms if selector is not None else ()
    if not terms or len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return ""
    (field,) = terms[0].match_fields
    is_one = field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
    return field.values[0] if is_one else ""


def _is_on_node(attempt: Attributes, node: str) -> bool:
    """Return True if a service account's token says that its pod is on the node."""
    said = dict(attempt.user.extra).get(_NODE_NAME, ())
    is_account = attempt.user.name.startswith(_SERVICE_ACCOUNT)
    return is_account and said == (node,) and not check_dns1123_subdomain(node)  # an empty name is no subdomain
