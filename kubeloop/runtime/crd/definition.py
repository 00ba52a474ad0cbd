# SPDX-License-Identifier: Apache-2.0
"""Custom resources from typed classes: the definition for the server, and typed objects for a controller.

    class Website(CustomObject, frozen=True, kw_only=True):
        spec: WebsiteSpec
        status: WebsiteStatus = WebsiteStatus()

    WEBSITES = CustomKind(Website, "websites.example.com/v1", columns={"Replicas": ".spec.replicas"})

class ──▶ CustomKind ─┬─▶ definition: applied by `ensure`; resource: for informers and clients
                      └─▶ read: mapping ─▶ typed object; write: typed object ─▶ mapping
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import STATUS, Resource
from kubeloop.api.unstructured import Unstructured
from kubeloop.client import Client
from kubeloop.runtime.crd.schema import Schema, at_path, schema_of
from kubeloop.runtime.objects.owner_references import controller_reference


class CustomObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of typed custom objects; subclasses add `spec`, and `status` if the kind has one."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


T = TypeVar("T", bound=CustomObject)


@dataclass(frozen=True)
class CustomKind(Generic[T]):
    """Kind of a custom resource: `name` is its plural, group and version, as `websites.example.com/v1`."""

    type: type[T]
    name: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)  # what kubectl shows: title and path

    @property
    def kind(self) -> str:
        """Kind, the class's name."""
        return self.type.__name__

    @cached_property
    def resource(self) -> Resource:
        """Resource for informers and clients."""
        qualified, _, version = self.name.partition("/")
        plural, _, group = qualified.partition(".")
        if not (plural and group and version):
            raise ValueError(f"{self.name!r} is not of the form plural.group/version")
        return Resource(
            group,
            version,
            plural,
            self.kind,
            namespaced=self.namespaced,
            short_names=self.short_names,
            categories=self.categories,
            subresources=(STATUS,) if self._has_status else (),
        )

    @cached_property
    def definition(self) -> CustomResourceDefinition:
        """CustomResourceDefinition for the server."""
        resource = self.resource
        names = {
            "plural": resource.plural,
            "singular": resource.singular,
            "kind": resource.kind,
            "listKind": resource.list_kind,
            "shortNames": list(self.short_names),
            "categories": list(self.categories),
        }
        spec = {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if self.namespaced else "Cluster",
            "versions": [self._version()],
        }
        return codec.from_plain({"metadata": {"name": resource.group_resource}, "spec": spec}, CustomResourceDefinition)

    def read(self, found: Mapping[str, Any]) -> T:
        """Convert an object of a cache or a response to a typed one."""
        document = found.document if isinstance(found, Unstructured) else found
        return codec.from_plain(document, self.type)

    def write(self, obj: T) -> Unstructured:
        """Convert a typed object to the form that clients take."""
        document = codec.to_plain(obj)
        return Unstructured({"apiVersion": self.resource.group_version, "kind": self.kind, **document})

    def owner_reference(self, obj: T) -> dict[str, Any]:
        """Return a controller owner reference to the object, as plain data to apply."""
        found: dict[str, Any] = codec.to_plain(controller_reference(obj, self.resource))
        return found

    async def ensure(self, client: Client, *, manager: str = "", within: float = 30.0) -> None:
        """Apply the definition and wait until it is established."""
        await client.apply(self.definition, manager=manager or self.resource.group_resource, force=True)
        chosen = {"metadata.name": self.definition.metadata.name}
        async with asyncio.timeout(within):
            async for events in client.watch(CustomResourceDefinition, fields=chosen, resource_version="0"):
                if any(one.object is not None and is_established(one.object) for one in events):
                    return

    @property
    def _has_status(self) -> bool:
        return "status" in self.type.__struct_fields__

    def _version(self) -> dict[str, Any]:
        schema = root_schema(self.type)
        version: dict[str, Any] = {
            "name": self.resource.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": [_column(title, path, schema) for title, path in self.columns.items()],
        }
        return version | ({"subresources": {"status": {}}} if self._has_status else {})


def root_schema(kind: type[CustomObject]) -> Schema:
    """Return a whole object's schema; the server knows the schema of metadata itself."""
    schema = schema_of(kind)
    schema["properties"].get("status", {}).pop("default", None)  # the reporting controller sets it
    schema["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return schema


def _column(title: str, path: str, schema: Schema) -> dict[str, Any]:
    if path.startswith(".metadata."):
        return {"name": title, "jsonPath": path, "type": "date" if path.endswith("Timestamp") else "string"}
    found = at_path(schema, path)
    kind = found.get("type", "string")
    shown = "date" if found.get("format") == "date-time" else kind
    return {"name": title, "jsonPath": path, "type": "string" if shown in ("array", "object") else shown}


def is_established(definition: CustomResourceDefinition) -> bool:
    """Return True if a definition's objects are served."""
    conditions = definition.status.conditions or ()
    return any(one.type == "Established" and one.status == "True" for one in conditions)
