# SPDX-License-Identifier: Apache-2.0
"""Requests of the garbage collector: current metadata, and the few changes that it makes."""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import NotFound, UnsupportedMediaType
from kubeloop.api.generated.meta_v1 import ObjectMeta, Preconditions
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import MERGE_PATCH, STRATEGIC_PATCH
from kubeloop.client import Client
from kubeloop.controllers.garbage_collector import decisions
from kubeloop.controllers.garbage_collector.identity import ObjectIdentity
from kubeloop.controllers.garbage_collector.kinds import RestMapper


class RestMappingError(Exception):
    """Raised for a kind that discovery does not list; it may appear later."""


class NamespacedOwnerError(Exception):
    """Raised if a cluster-scoped object names a namespaced owner, which can never be found."""


class ObjectAccess:
    """Accesses objects on the server by identity."""

    def __init__(self, client: Client, kinds: RestMapper) -> None:
        self._client = client
        self._kinds = kinds
        self._merge_only: set[tuple[str, str]] = set()  # resources without strategic merge patch

    def resource_of(self, identity: ObjectIdentity) -> Resource:
        """Return the resource of an identity; raises UnknownKind."""
        resource = self._kinds.find(identity.api_version, identity.kind)
        if resource is None:
            raise RestMappingError(f"unable to get REST mapping for {identity.api_version}/{identity.kind}.")
        return resource

    async def get(self, identity: ObjectIdentity) -> ObjectMeta | None:
        """Return the current metadata; None if the object is missing or has another UID."""
        resource, namespace = self._place(identity)
        try:
            found = await self._client.get(resource, identity.name, namespace, metadata_only=True)
        except NotFound as error:
            if not is_object_not_found(error, identity.name):
                raise
            return None
        meta: ObjectMeta = found.metadata
        return meta if meta.uid == identity.uid else None

    async def delete(self, identity: ObjectIdentity, seen: ObjectMeta, policy: str) -> bool:
        """Delete the object if it is unchanged, else raise Conflict; returns True if it was already gone."""
        resource, namespace = self._place(identity)
        as_seen = Preconditions(uid=seen.uid, resource_version=seen.resource_version)
        try:
            await self._client.delete(resource, seen.name, namespace, propagation=policy, preconditions=as_seen)
        except NotFound as error:
            if not is_object_not_found(error, seen.name):
                raise
            return True
        return False

    async def remove_owner_references(self, identity: ObjectIdentity, seen: ObjectMeta, owner_uids: set[str]) -> None:
        """Remove the references to some owners."""
        strategic = decisions.strategic_release(seen, owner_uids)
        await self._patch(identity, strategic, decisions.merged_release(seen, owner_uids))

    async def unblock_owner_references(self, identity: ObjectIdentity, seen: ObjectMeta) -> ObjectMeta:
        """Clear blockOwnerDeletion in all owner references; returns the new metadata."""
        return await self._patch(identity, decisions.strategic_unblock(seen), decisions.merged_unblock(seen))

    async def remove_finalizer(self, identity: ObjectIdentity, seen: ObjectMeta, finalizer: str) -> None:
        """Remove a finalizer if the object is unchanged, which may complete its deletion."""
        if finalizer not in seen.finalizers:
            return
        resource, namespace = self._place(identity)
        patch = decisions.without_finalizer(seen, finalizer)
        await self._client.patch(resource, identity.name, patch, namespace, type=MERGE_PATCH)

    async def _patch(self, identity: ObjectIdentity, strategic: dict[str, Any], merged: dict[str, Any]) -> ObjectMeta:
        resource, namespace = self._place(identity)
        which = (resource.group, resource.plural)
        patched: Any = None
        if which not in self._merge_only:
            try:
                patched = await self._client.patch(resource, identity.name, strategic, namespace, type=STRATEGIC_PATCH)
            except UnsupportedMediaType:
                self._merge_only.add(which)
        if patched is None:
            patched = await self._client.patch(resource, identity.name, merged, namespace, type=MERGE_PATCH)
        meta: ObjectMeta = patched.metadata
        return meta

    def _place(self, identity: ObjectIdentity) -> tuple[Resource, str]:
        resource = self.resource_of(identity)
        if resource.namespaced and not identity.namespace:
            raise NamespacedOwnerError(f"{identity} is namespaced and has no namespace")
        return resource, identity.namespace if resource.namespaced else ""


def is_object_not_found(error: NotFound, name: str) -> bool:
    """Return True if the object is missing, not its whole kind, which would prove nothing about the object."""
    return error.details is not None and error.details.name == name
