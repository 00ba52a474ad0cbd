"""Custom resources from typed classes: the definition that a server wants, and objects that a loop can work with.

    class Website(CustomObject, frozen=True, kw_only=True):
        spec: WebsiteSpec
        status: WebsiteStatus = WebsiteStatus()

    WEBSITES = CustomKind(Website, "websites.example.com/v1", columns={"Replicas": ".spec.replicas"})

class ──▶ CustomKind ─┬─▶ definition: what to apply, as `ensure` does; resource: what informers are asked for
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
from kubeloop.api.unstructured import Custom
from kubeloop.client import Client
from kubeloop.runtime.crd.schema import Schema, at_path, schema_of
from kubeloop.runtime.objects.owner_references import controller_reference


class CustomObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What typed custom objects are made of; subclasses add `spec`, and `status` if the kind has one."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


T = TypeVar("T", bound=CustomObject)


@dataclass(frozen=True)
class CustomKind(Generic[T]):
    """A kind of custom resource: `name` is its plural, group and version, as `websites.example.com/v1`."""

    type: type[T]
    name: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)  # what kubectl shows: title and path

    @property
    def kind(self) -> str:
        return self.type.__name__

    @cached_property
    def resource(self) -> Resource:
        """For informers and clients."""
        qualified, _, version = self.name.partition("/")
        plural, _, group = qualified.partition(".")
        if not (plural and group and version):
            raise ValueError(f"{self.name!r} is no plural.group/version")
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
        """For the server."""
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
        return codec.from_plain({"metadata": {"name": resource.qualified}, "spec": spec}, CustomResourceDefinition)

    def read(self, found: Mapping[str, Any]) -> T:
        """An object of a cache or an answer, typed."""
        document = found.document if isinstance(found, Custom) else found
        return codec.from_plain(document, self.type)

    def write(self, obj: T) -> Custom:
        """A typed object, as clients take it."""
        document = codec.to_plain(obj)
        return Custom({"apiVersion": self.resource.group_version, "kind": self.kind, **document})

    def owner_reference(self, obj: T) -> dict[str, Any]:
        """Says that an object of this kind manages another, in the form of documents to apply."""
        found: dict[str, Any] = codec.to_plain(controller_reference(obj, self.resource))
        return found

    async def ensure(self, client: Client, *, manager: str = "", within: float = 30.0) -> None:
        """Make the server serve this kind as it is defined here; returns when it does."""
        await client.apply(self.definition, manager=manager or self.resource.qualified, force=True)
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
    """A whole object's schema; of its metadata the server knows more than we could say."""
    schema = schema_of(kind)
    schema["properties"].get("status", {}).pop("default", None)  # who reports it says when there is one
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
    """Whether objects of a definition are served."""
    conditions = definition.status.conditions or ()
    return any(one.type == "Established" and one.status == "True" for one in conditions)
