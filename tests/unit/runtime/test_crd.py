# SPDX-License-Identifier: Apache-2.0
"""Definitions made from typed classes, and the objects of their kinds."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct, field

from kubeloop.api import codec
from kubeloop.api.errors import Invalid
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.generated.core_v1 import PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Quantity
from kubeloop.runtime.crd.definition import CustomKind, CustomObject, is_established, root_schema
from kubeloop.runtime.crd.schema import SchemaError, schema_of
from kubeloop.testing import Cluster


class Size(Enum):
    SMALL = "small"
    BIG = "big"


class Door(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something to go through."""

    is_open: bool = False
    keys: frozenset[str] = frozenset()


class Spec(Struct, frozen=True, kw_only=True, rename="camel"):
    owner_name: Annotated[str, Meta(min_length=1, pattern="^[a-z]+$")]
    floors: Annotated[int, Meta(ge=1, le=9)] = 2
    doors: Annotated[list[Door], Meta(max_length=4)] = []
    built: datetime | None = None


class Status(Struct, frozen=True, kw_only=True):
    inhabitants: int = 0


class House(CustomObject, frozen=True, kw_only=True):
    spec: Spec
    status: Status = Status()


class Garden(CustomObject, frozen=True, kw_only=True):
    spec: dict[str, Any] = field(default_factory=dict)


class Knot(Struct):
    next: Knot | None = None


HOUSES = CustomKind(House, "houses.example.com/v1", short_names=("hs",), columns={"Floors": ".spec.floors"})
GARDENS = CustomKind(Garden, "gardens.example.com/v1", namespaced=False)


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (int, {"type": "integer", "format": "int64"}),
        (float, {"type": "number"}),
        (bytes, {"type": "string", "format": "byte"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (Quantity, {"type": "string"}),
        (Any, {"x-kubernetes-preserve-unknown-fields": True}),
        (str | None, {"type": "string", "nullable": True}),
        (int | str, {"x-kubernetes-int-or-string": True}),
        (Size, {"type": "string", "enum": ["big", "small"]}),
        (Literal[2, 1], {"type": "integer", "enum": [1, 2]}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        (dict[str, str], {"type": "object", "additionalProperties": {"type": "string"}}),
        (PodSpec, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (Annotated[float, Meta(gt=0)], {"type": "number", "minimum": 0, "exclusiveMinimum": True}),
        (Annotated[str, Meta(max_length=3)], {"type": "string", "maxLength": 3}),
        (Annotated[dict[str, str], Meta(max_length=3)], {"maxProperties": 3}),
        (Annotated[str, Meta(extra_json_schema={"format": "ipv4"})], {"type": "string", "format": "ipv4"}),
    ],
)
def test_schema_of_a_type(kind: Any, schema: dict[str, Any]) -> None:
    assert schema_of(kind).items() >= schema.items()


def test_struct_schema_has_wire_names_and_defaults() -> None:
    assert schema_of(Door) == {
        "type": "object",
        "description": "Something to go through.",
        "properties": {
            "isOpen": {"type": "boolean", "default": False},
            "keys": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        },
    }


def test_fields_without_default_are_required() -> None:
    assert schema_of(Spec)["required"] == ["ownerName"]


@pytest.mark.parametrize("kind", [int | bool, dict[int, str], tuple[int, str], Knot, Literal["a", 1]])
def test_some_types_have_no_structural_schema(kind: Any) -> None:
    with pytest.raises(SchemaError):
        schema_of(kind, ".spec")


def test_a_status_has_no_default() -> None:
    assert "default" not in root_schema(House)["properties"]["status"]


def test_status_is_a_subresource_if_present() -> None:
    assert "status" in HOUSES.resource.by_name
    assert GARDENS.resource.by_name == {}


def test_name_is_plural_group_and_version() -> None:
    assert (HOUSES.resource.plural, HOUSES.resource.group, HOUSES.resource.version) == ("houses", "example.com", "v1")
    with pytest.raises(ValueError, match="plural"):
        _ = CustomKind(House, "houses").resource


def test_column_path_must_exist() -> None:
    with pytest.raises(SchemaError, match="there is no roof"):
        _ = CustomKind(House, "houses.example.com/v1", columns={"Roof": ".spec.roof"}).definition


def test_objects_round_trip() -> None:
    house = House(metadata=ObjectMeta(name="one"), spec=Spec(owner_name="ann", doors=[Door(is_open=True)]))
    written = HOUSES.write(house)
    assert (written.api_version, written.kind, written["spec"]["ownerName"]) == ("example.com/v1", "House", "ann")
    assert HOUSES.read(written) == house
    assert HOUSES.owner_reference(house)["kind"] == "House"


@pytest.mark.parametrize("kind", [HOUSES, GARDENS])
def test_server_accepts_the_definition(cluster: Cluster, kind: CustomKind[Any]) -> None:
    cluster.run(kind.ensure(cluster.async_client))
    found = cluster.client.get(CustomResourceDefinition, kind.definition.metadata.name)
    assert is_established(found)
    version = found.metadata.resource_version
    cluster.run(kind.ensure(cluster.async_client))
    again = cluster.client.get(CustomResourceDefinition, kind.definition.metadata.name)
    assert again.metadata.resource_version == version, "the same definition changes nothing"


def test_server_defaults_and_validates_objects(cluster: Cluster) -> None:
    cluster.run(HOUSES.ensure(cluster.async_client))
    about = {"apiVersion": "example.com/v1", "kind": "House", "metadata": {"name": "one", "namespace": "default"}}
    made = HOUSES.read(cluster.client.create({**about, "spec": {"ownerName": "ann"}}))
    assert made.spec.floors == 2
    with pytest.raises(Invalid, match=r"spec\.floors"):
        cluster.client.create({**about, "spec": {"ownerName": "bob", "floors": 10}})
    assert codec.to_plain(made.spec)["ownerName"] == "ann"
