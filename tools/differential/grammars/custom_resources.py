# SPDX-License-Identifier: Apache-2.0
"""Custom resources: a definition with a random schema, and objects that it defaults, prunes, converts and rejects."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tools.differential.case import Step
from tools.differential.grammars.draft import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, Draft, create, patch
from tools.differential.grammars.structural_schemas import object_schema, value_for
from tools.differential.options import accept_header, write_options
from tools.differential.seeds import Seed

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUP = "{ns}.example.com"
_COLUMNS: tuple[dict[str, Any], ...] = (
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
    {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Parts", "type": "string", "jsonPath": ".spec.parts[*].name"},
    {"name": "Count", "type": "number", "jsonPath": ".spec.count", "format": "double"},
    {"name": "Bad", "type": "thing", "jsonPath": ".spec.x"},
    {"name": "Path", "type": "string", "jsonPath": "spec"},
)


@dataclass(frozen=True, slots=True)
class _Custom:
    """Definition under test: the schema of its spec, its versions and subresources."""

    schema: dict[str, Any]
    versions: tuple[str, ...]
    has_status: bool
    has_scale: bool

    def path(self, rng: random.Random) -> str:
        return f"/apis/{_GROUP}/{rng.choice(self.versions)}/namespaces/{{ns}}/things"


def custom_resources(rng: random.Random, seeds: Sequence[Seed]) -> Draft:
    """Return a definition, a wait until it is served, and five to eight requests for its objects."""
    del seeds  # the definition is written here
    custom = _Custom(
        object_schema(rng, 3),
        ("v1",) if rng.random() < 0.7 else ("v1", "v2"),
        rng.random() < 0.6,
        rng.random() < 0.3,
    )
    steps = [
        create(_CRDS, _definition(rng, custom)),
        Step("GET", f"/apis/{_GROUP}/v1/namespaces/{{ns}}/things", None, {}, 200),
        _create(rng, custom, 0.0),
    ]
    actions: tuple[Callable[[random.Random, _Custom], Step], ...] = (
        _create,
        _create,
        _update,
        _update,
        _merge,
        _json_patch,
        _apply,
        _apply,
        _read,
        _subresource,
        _subresource,
        _redefine,
    )
    steps += [rng.choice(actions)(rng, custom) for _ in range(rng.randint(5, 8))]
    return Draft(tuple(steps), (f"{_CRDS}/things.{_GROUP}",))


def _definition(rng: random.Random, custom: _Custom) -> dict[str, Any]:
    versions = [_version(rng, custom, name) for name in custom.versions]
    spec: dict[str, Any] = {
        "group": _GROUP,
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": versions,
    }
    if rng.random() < 0.3:
        spec["conversion"] = {"strategy": "None"}
    if rng.random() < 0.03:
        spec["preserveUnknownFields"] = True
    metadata = {"name": f"things.{_GROUP}"}
    kind = "CustomResourceDefinition"
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _version(rng: random.Random, custom: _Custom, name: str) -> dict[str, Any]:
    properties: dict[str, Any] = {"spec": custom.schema}
    if rng.random() < 0.8:
        status = {"replicas": {"type": "integer"}, "selector": {"type": "string"}, "phase": {"type": "string"}}
        properties["status"] = {"type": "object", "properties": status}
    root: dict[str, Any] = {"type": "object", "properties": properties}
    if rng.random() < 0.1:
        root["x-kubernetes-validations"] = [{"rule": "self.metadata.name.startsWith('a')", "message": "name"}]
    version: dict[str, Any] = {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "schema": {"openAPIV3Schema": root},
    }
    if custom.has_status:
        version["subresources"] = {"status": {}}
    if custom.has_scale:
        paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}
        selector = {"labelSelectorPath": ".status.selector"} if rng.random() < 0.5 else {}
        version.setdefault("subresources", {})["scale"] = {**paths, **selector}
    if rng.random() < 0.5:
        version["additionalPrinterColumns"] = rng.sample(_COLUMNS[:6], 3) if rng.random() < 0.9 else [_COLUMNS[7]]
    if rng.random() < 0.15:
        version["selectableFields"] = [{"jsonPath": rng.choice((".spec.mode", ".spec.size", ".spec.parts"))}]
    if rng.random() < 0.05:
        version |= {"deprecated": True, "deprecationWarning": "old"}
    return version


def _document(rng: random.Random, custom: _Custom, oddness: float) -> dict[str, Any]:
    version = rng.choice(custom.versions)
    document: dict[str, Any] = {"apiVersion": f"{_GROUP}/{version}", "kind": "Thing", "metadata": {"name": "a"}}
    if rng.random() < 0.95:
        document["spec"] = value_for(rng, custom.schema, oddness)
    if rng.random() < 0.3:
        document["status"] = {"replicas": rng.choice((1, "x")), "selector": "a=b", "more": 1}
    if rng.random() < 0.1:
        document["extra"] = {"a": 1}
    return document


def _oddness(rng: random.Random) -> float:
    return rng.choice((0.0, 0.0, 0.05, 0.2))


def _versioned(rng: random.Random, document: dict[str, Any]) -> str:
    """Return the collection of the document's version; rarely that of v1 in any case."""
    version = document["apiVersion"].rpartition("/")[2] if rng.random() < 0.95 else "v1"
    return f"/apis/{_GROUP}/{version}/namespaces/{{ns}}/things"


def _create(rng: random.Random, custom: _Custom, oddness: float | None = None) -> Step:
    document = _document(rng, custom, _oddness(rng) if oddness is None else oddness)
    if oddness is None:
        document["metadata"]["name"] = rng.choice(("b", "c", "d", "B_"))
    query = write_options(rng)
    path = _versioned(rng, document)
    return create(f"{path}?{query}" if query else path, document)


def _update(rng: random.Random, custom: _Custom) -> Step:
    document = _document(rng, custom, _oddness(rng))
    if rng.random() < 0.9:
        document["metadata"]["resourceVersion"] = rng.choice(("{rv:2}", "{rv:2}", "{rv:3}", "x"))
    return Step("PUT", f"{_versioned(rng, document)}/a", document, dict(JSON))


def _merge(rng: random.Random, custom: _Custom) -> Step:
    body = {"spec": value_for(rng, custom.schema, _oddness(rng))}
    return patch(f"{custom.path(rng)}/a", MERGE_PATCH, body, write_options(rng))


def _json_patch(rng: random.Random, custom: _Custom) -> Step:
    name = rng.choice(sorted(custom.schema["properties"]))
    value = value_for(rng, custom.schema["properties"][name], 0.1)
    operations = [{"op": rng.choice(("add", "replace", "remove")), "path": f"/spec/{name}", "value": value}]
    return patch(f"{custom.path(rng)}/a", JSON_PATCH, operations)


def _apply(rng: random.Random, custom: _Custom) -> Step:
    document = _document(rng, custom, _oddness(rng))
    query = f"fieldManager={rng.choice(('one', 'two'))}" + rng.choice(("", "", "&force=true"))
    return patch(f"{_versioned(rng, document)}/a", APPLY_PATCH, document, query)


def _read(rng: random.Random, custom: _Custom) -> Step:
    path = custom.path(rng) + rng.choice(("", "/a", "/a", "?fieldSelector=spec.mode%3Da", "?labelSelector=a"))
    return Step("GET", path, None, accept_header(rng))


def _subresource(rng: random.Random, custom: _Custom) -> Step:
    if rng.random() < 0.5:
        path = f"{custom.path(rng)}/a/scale"
        if rng.random() < 0.4:
            return Step("GET", path)
        return patch(path, MERGE_PATCH, {"spec": {"replicas": rng.choice((1, 2, -1, "x"))}})
    document = _document(rng, custom, 0.0)
    document["status"] = {"phase": rng.choice(("a", 1)), "replicas": 1, "selector": "a=b", "unknown": 1}
    path = f"{_versioned(rng, document)}/a/status"
    how = rng.random()
    if how < 0.4:
        return patch(path, MERGE_PATCH, {"status": document["status"], "spec": document.get("spec")})
    if how < 0.6:
        return patch(path, APPLY_PATCH, document, "fieldManager=st&force=true")
    return Step("PUT", path, document, dict(JSON))


def _redefine(rng: random.Random, custom: _Custom) -> Step:
    """Return a dry run of a changed definition: whether the change is permitted."""
    definition = _definition(rng, custom)
    changed = copy.deepcopy(definition)
    changed["metadata"]["resourceVersion"] = "{rv:0}"
    how = rng.random()
    if how < 0.2:
        changed["spec"]["scope"] = "Cluster"
    elif how < 0.4:
        changed["spec"]["names"]["kind"] = "Other"
    elif how < 0.7:
        changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = object_schema(rng, 2)
    else:
        changed["spec"]["versions"][0][rng.choice(("served", "storage"))] = False
    body = {"spec": changed["spec"]} if how > 0.5 else changed
    if body is changed:
        return Step("PUT", f"{_CRDS}/things.{_GROUP}?dryRun=All", changed, dict(JSON))
    return patch(f"{_CRDS}/things.{_GROUP}", MERGE_PATCH, body, "dryRun=All")
