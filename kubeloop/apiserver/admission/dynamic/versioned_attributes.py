# SPDX-License-Identifier: Apache-2.0
"""Versioned attributes: a write's documents in the version that a policy or webhook requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from kubeloop.api import codec
from kubeloop.api.kinds import Resource
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.apiserver.admission import Attributes
from kubeloop.apiserver.admission.dynamic.match_rules import namespace_of
from kubeloop.apiserver.apiextensions.scale import set_replicas
from kubeloop.apiserver.decoding import decode_document
from kubeloop.apiserver.handlers.subresources.scale import SCALE, scale_of

Document = dict[str, Any]
# Converts an object to another version of its kind.
Convert = Callable[[Any, Resource, Resource], Awaitable[Any]]
# Metadata that is set on storage, and therefore hidden during mutation.
_SYSTEM_METADATA: Final = ("uid", "creationTimestamp")
_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class AdmissionKind(NamedTuple):
    """GroupVersionKind."""

    group: str
    version: str
    kind: str

    def document(self) -> dict[str, str]:
        """Return the kind as JSON-compatible document."""
        return {"group": self.group, "version": self.version, "kind": self.kind}


class VersionedAttributes:
    """Write under mutating (`settled` is False) or validating admission, with its documents by version."""

    def __init__(self, attempt: Attributes, convert: Convert, *, settled: bool) -> None:
        self.attributes = attempt
        self._convert = convert
        self._hides_system_metadata = attempt.operation == "CREATE" and not attempt.subresource and not settled
        self._documents: dict[str, tuple[Any, Document | None]] = {}
        self._old_documents: dict[str, Document | None] = {}

    @property
    def namespace(self) -> str:
        """Namespace of the write; that of a Namespace is its own name."""
        return namespace_of(self.attributes)

    @property
    def name(self) -> str:
        """Name of the object; empty during mutation if the server generated it."""
        return "" if self._hides_system_metadata and self.attributes.has_generated_name else self.attributes.name

    @property
    def is_scale(self) -> bool:
        """True if the write is to the scale subresource."""
        return self.attributes.subresource == "scale"

    def kind_in(self, resource: Resource) -> AdmissionKind:
        """Return the kind of the write's object in a version; a posted object (Binding, …) has its own."""
        obj, own = self.attributes.obj, self.attributes.resource
        if self.is_scale:
            return AdmissionKind(SCALE.group, SCALE.version, SCALE.kind)
        if obj is not None and not isinstance(obj, CustomResourceObject) and obj.kind != own.kind:
            group, _, version = obj.api_version.rpartition("/")
            return AdmissionKind(group, version, obj.kind)
        return AdmissionKind(resource.group, resource.version, resource.kind)

    async def document(self, resource: Resource) -> Document | None:
        """Return the object's current document. Must not be changed."""
        obj = self.attributes.obj
        known = self._documents.get(resource.group_version)
        if known is None or known[0] is not obj:
            shown = await self._document_of(obj, resource)
            if shown is not None and self._hides_system_metadata:
                shown["metadata"] = self._without_system_metadata(shown["metadata"])
            known = self._documents[resource.group_version] = obj, shown
        return known[1]

    async def old_document(self, resource: Resource) -> Document | None:
        """Return the old object's document. Must not be changed."""
        if resource.group_version not in self._old_documents:
            self._old_documents[resource.group_version] = await self._document_of(self.attributes.old_obj, resource)
        return self._old_documents[resource.group_version]

    async def replace_object(self, document: Document, resource: Resource) -> bool:
        """Replace the object by a changed document, defaulted; return True if it differs. Raises if it is invalid."""
        before = await self.document(resource)
        kind = self.kind_in(resource)
        if self.attributes.operation == "CONNECT":
            self.attributes.obj = codec.from_plain(document, type(self.attributes.obj))
            return await self.document(resource) != before
        made = decode_document(document, self._resource_of_kind(kind, resource), "Ignore").obj
        if self.is_scale:
            self._scale_to(made.spec.replicas)
        else:
            obj = made if kind.kind != resource.kind else await self._convert(made, resource, self.attributes.resource)
            self._restore_system_metadata(obj.metadata)
            self.attributes.obj = obj
        return await self.document(resource) != before

    def options(self) -> Document | None:
        """Return the options of the request (CreateOptions, …), or None."""
        attempt = self.attributes
        kind = _OPTIONS.get(attempt.operation)
        if kind is None:
            return None
        typed = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if attempt.delete_options is not None:
            return {**codec.to_plain(attempt.delete_options), **typed}
        query = attempt.query
        if query is None:
            return typed
        manager, validation, dry_run = (
            query.text("fieldManager"),
            query.text("fieldValidation"),
            query.all_values("dryRun"),
        )
        told = {"dryRun": list(dry_run), "fieldManager": manager, "fieldValidation": validation}
        return {**typed, **{name: value for name, value in told.items() if value}}

    def user_info(self) -> Document:
        """Return the user as UserInfo document."""
        user = self.attributes.user
        extra = {key: list(values) for key, values in user.extra}
        told = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
        return {name: value for name, value in told.items() if value}

    def _scale_to(self, replicas: int) -> None:
        parent = self.attributes.obj
        if isinstance(parent, CustomResourceObject):
            set_replicas(parent, replicas)
        elif parent is not None:
            codec.force_setattr(parent.spec, "replicas", replicas)
        self._documents.clear()

    def _resource_of_kind(self, kind: AdmissionKind, resource: Resource) -> Resource:
        if kind == (resource.group, resource.version, resource.kind):
            return resource
        return Resource(kind.group, kind.version, f"{kind.kind.lower()}s", kind.kind)

    async def _document_of(self, obj: Any, resource: Resource) -> Document | None:
        if obj is None:
            return None
        if self.is_scale:
            obj = scale_of(obj)
        elif obj.kind == self.attributes.resource.kind:
            obj = await self._convert(obj, self.attributes.resource, resource)
        document: Document = codec.to_plain(obj)
        return document

    def _without_system_metadata(self, metadata: Document) -> Document:
        hidden = (*_SYSTEM_METADATA, "name") if self.attributes.has_generated_name else _SYSTEM_METADATA
        return {name: value for name, value in metadata.items() if name not in hidden}

    def _restore_system_metadata(self, metadata: Any) -> None:
        if not self._hides_system_metadata or self.attributes.obj is None:
            return
        before = self.attributes.obj.metadata
        codec.force_setattr(metadata, "uid", before.uid)
        codec.force_setattr(metadata, "creation_timestamp", before.creation_timestamp)
        if self.attributes.has_generated_name and not metadata.name:
            codec.force_setattr(metadata, "name", before.name)
        elif self.attributes.has_generated_name:
            self.attributes.has_generated_name = False
            self.attributes.name = metadata.name
