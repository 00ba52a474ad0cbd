# SPDX-License-Identifier: Apache-2.0
"""OwnerReferencesPermissionEnforcement: who changes owner references needs permissions on dependents and owners."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Operation
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, AuthorizationDecision

# Authorizer and reason of a decision that does not allow, as Go formats a missing error.
_NO_ERROR = "<nil>"


class OwnerReferencesPermissionEnforcement(AdmissionPlugin):
    """Requires `delete` on the object for changed owner references, `update` on finalizers of blocked owners."""

    name = "OwnerReferencesPermissionEnforcement"
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, authorizer: UnionAuthorizer, served: Callable[[], Iterable[Resource]]) -> None:
        self._authorizer = authorizer
        self._served = served

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for all creates and updates, except of a pod's status, which cannot change owners."""
        return operation in self.operations and (resource.group_resource, subresource) != ("pods", "status")

    def validate(self, attempt: Attributes) -> Awaitable[None] | None:
        """Reject a change of owner references without the permissions."""
        new, old = _references(attempt.obj), _references(attempt.old_obj)
        return None if new == old else self._check(attempt, _newly_blocking(new, old))

    async def _check(self, attempt: Attributes, blocking: Sequence[OwnerReference]) -> None:
        if attempt.operation != "CREATE":
            await self._require_delete(attempt)
        if not blocking or (await self._decide_finalizers(attempt, "*", "*", "*", "*")).allowed:
            return
        for reference in blocking:
            await self._require_finalizers(attempt, reference)

    async def _require_delete(self, attempt: Attributes) -> None:
        resource = attempt.resource
        asked = AuthorizationAttributes(
            attempt.user,
            "delete",
            resource.group,
            resource.version,
            resource.plural,
            attempt.subresource,
            attempt.namespace,
            attempt.name,
        )
        decision = await self._authorizer.wait_decision(asked)
        if not decision.allowed:
            raise attempt.forbidden(
                f"cannot set an ownerRef on a resource you can't delete: {decision.reason}, {_NO_ERROR}"
            )

    async def _require_finalizers(self, attempt: Attributes, reference: OwnerReference) -> None:
        owners = list(self._mappings(reference))
        if not owners:
            group, _, version = reference.api_version.rpartition("/")
            raise attempt.forbidden(
                f"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
                f"{reference.api_version} Kind {reference.kind}: no matches for kind "
                f'"{reference.kind}" in version "{f"{group}/{version}" if group else version}"'
            )
        for owner in owners:
            namespace = attempt.namespace if owner.namespaced else ""
            decision = await self._decide_finalizers(
                attempt, owner.group, owner.version, owner.plural, reference.name, namespace
            )
            if not decision.allowed:
                raise attempt.forbidden(
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers "
                    f"on: {decision.reason}, {_NO_ERROR}"
                )

    async def _decide_finalizers(
        self, attempt: Attributes, group: str, version: str, plural: str, name: str, namespace: str = ""
    ) -> AuthorizationDecision:
        return await self._authorizer.wait_decision(
            AuthorizationAttributes(attempt.user, "update", group, version, plural, "finalizers", namespace, name)
        )

    def _mappings(self, reference: OwnerReference) -> Iterator[Resource]:
        """Yield the served resources of the owner's kind."""
        return (
            resource
            for resource in self._served()
            if resource.kind == reference.kind and resource.group_version == reference.api_version
        )


def _references(obj: Any) -> tuple[OwnerReference, ...]:
    metadata = getattr(obj, "metadata", None)
    return tuple(metadata.owner_references) if metadata is not None else ()


def _newly_blocking(new: tuple[OwnerReference, ...], old: tuple[OwnerReference, ...]) -> list[OwnerReference]:
    """Return the references that block the owner's deletion and did not before."""
    before = {reference.uid for reference in old if reference.block_owner_deletion}
    return [reference for reference in new if reference.block_owner_deletion and reference.uid not in before]
