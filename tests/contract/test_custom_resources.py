# SPDX-License-Identifier: Apache-2.0
"""Custom resources through the client: the same documents, whether they came over HTTP or within the process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.api import errors
from kubeloop.api.unstructured import PartialObjectMetadata, Unstructured
from kubeloop.client.errors import NoKindMatchError
from tests.contract.planes import NAMESPACE, Plane, on_both

NAME = "gardens.example.org"
GARDENS = "gardens.example.org/v1"
DEFINITIONS = "customresourcedefinitions"


def definition(**fields: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"beds": {"type": "integer", "maximum": 10}, **fields}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gardens", "singular": "garden", "kind": "Garden", "listKind": "GardenList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def garden(name: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": NAMESPACE, "labels": {"of": name}}
    return {"apiVersion": "example.org/v1", "kind": "Garden", "metadata": meta, "spec": spec}


async def define(plane: Plane, **fields: Any) -> None:
    with pytest.raises(NoKindMatchError):
        await plane.client.resolve(GARDENS)
    await plane.client.create(definition(**fields))
    plane.client.invalidate_discovery()


@on_both
async def test_custom_object_is_a_document_with_metadata(plane: Plane) -> None:
    await define(plane, soil={"type": "string", "default": "loam"})
    made = await plane.client.create(garden("a", beds=3, unknown=True))
    assert isinstance(made, Unstructured)
    assert made["spec"] == {"beds": 3, "soil": "loam"}
    assert (made.metadata.name, made.metadata.labels, made.metadata.generation) == ("a", {"of": "a"}, 1)
    found = await plane.client.get(GARDENS, "a", NAMESPACE)
    listed = await plane.client.list(GARDENS, NAMESPACE, labels={"of": "a"})
    assert found == made
    assert listed.items == (made,)
    assert listed.items[0].kind == "Garden"


@on_both
async def test_a_custom_object_is_patched_applied_and_deleted(plane: Plane) -> None:
    await define(plane)
    client = plane.client
    await client.create(garden("a", beds=3))
    patched = await client.patch(GARDENS, "a", {"spec": {"beds": 4}}, NAMESPACE)
    assert patched["spec"]["beds"] == 4
    with pytest.raises(errors.Conflict):
        await client.apply(garden("a", beds=5), manager="gardener")
    assert (await client.apply(garden("a", beds=5), manager="gardener", force=True))["spec"]["beds"] == 5
    with pytest.raises(errors.Invalid, match=r"spec\.beds"):
        await client.patch(GARDENS, "a", {"spec": {"beds": 11}}, NAMESPACE)
    assert (await client.delete(GARDENS, "a", NAMESPACE))["status"] == "Success"
    with pytest.raises(errors.NotFound, match=r'^gardens\.example\.org "a" not found$'):
        await client.get(GARDENS, "a", NAMESPACE)


@on_both
async def test_custom_object_metadata_can_be_read_alone(plane: Plane) -> None:
    await define(plane)
    await plane.client.create(garden("a", beds=3))
    found = await plane.client.get(GARDENS, "a", NAMESPACE, metadata_only=True)
    listed = await plane.client.list(GARDENS, NAMESPACE, metadata_only=True)
    assert isinstance(found, PartialObjectMetadata)
    assert found.metadata == listed.items[0].metadata
    assert found.metadata.name == "a"


@on_both
async def test_watch_of_custom_objects_survives_a_changed_definition(plane: Plane) -> None:
    await define(plane)
    client = plane.client
    first = await client.create(garden("a", beds=1))
    seen: list[tuple[str, str, Any]] = []

    async def watch() -> None:
        async for batch in client.watch(GARDENS, NAMESPACE, resource_version=first.metadata.resource_version):
            seen.extend((one.type, one.object.metadata.name, one.object["spec"]) for one in batch if one.object)
            if len(seen) >= 3:
                return

    watching = asyncio.create_task(watch())
    await client.create(garden("b", beds=2))
    versions = definition(soil={"type": "string", "default": "loam"})["spec"]["versions"]
    await client.patch(DEFINITIONS, NAME, {"spec": {"versions": versions}})
    await client.create(garden("c", beds=3))
    await client.delete(GARDENS, "a", NAMESPACE)
    await watching
    assert [one[:2] for one in seen] == [("ADDED", "b"), ("ADDED", "c"), ("DELETED", "a")]
    assert seen[1][2] == {"beds": 3, "soil": "loam"}


@on_both
async def test_removed_definition_is_not_found(plane: Plane) -> None:
    await define(plane)
    resource = await plane.client.resolve(GARDENS)
    watch = plane.client.watch(DEFINITIONS)
    await anext(watch)
    await plane.client.delete(DEFINITIONS, NAME)  # its objects go first
    async for batch in watch:
        if batch[-1].type == "DELETED":
            break
    with pytest.raises(errors.NotFound):
        await plane.client.list(resource, NAMESPACE)
