# SPDX-License-Identifier: Apache-2.0
"""Requests made up from a server's own OpenAPI documents: mostly what it describes, often bent, sometimes nonsense."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

Draw = Any  # hypothesis' own type of `draw` is generic in each call

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
CONTENT_TYPES = ("application/json", "application/yaml", "application/json; charset=utf-8", "text/plain", "", "a/b;c=")
_AS = "application/json;as={};g=meta.k8s.io;v=v1"
ACCEPTS = (
    "application/json",
    "*/*",
    _AS.format("Table"),
    _AS.format("PartialObjectMetadata"),
    _AS.format("PartialObjectMetadataList"),
    "application/yaml",
    "text/html",
    _AS.format("Nothing"),
    "application/json;q=0.1,*/*",
)
NAMES = ("a", "b", "Not_A_Name", "x" * 300, "a:b", "ä", "%2F", "..")
POINTERS = (
    *("", "/", "/metadata", "/metadata/name", "/metadata/labels/a", "/kind", "/spec", "/spec/-", "/status", "/data/a"),
    *("/spec/containers/0", "/spec/containers/-", "/spec/containers/99", "/a~1b~0", "metadata"),
)
ODD = st.sampled_from(
    [None, True, 0, -1, 1.5, 1 << 31, 1 << 63, 10**30, "", "a", "a/b", "ä\u0000", "x" * 70, [], {}, [None], {"a": None}]
).map(copy.deepcopy)  # what is drawn may be bent later
TEXTS = st.sampled_from(
    ["", "a", "b=c", "1", "-1", "true", "ä", "a,b", "(", "%", "x" * 300, "9" * 30, "null", "\u0000"]
)
QUERY = {
    "labelSelector": ["a=b", "a in (b,c)", "!a", "a notin (b)", "a==", "a in ()", "a=b,,", "x!=y,z"],
    "fieldSelector": ["metadata.name=a", "metadata.namespace!=x", "spec.nodeName=", "bad", "a=b", "status.phase=x,"],
    "resourceVersion": ["0", "1", "", "abc", "-1", "999999999"],
    "resourceVersionMatch": ["Exact", "NotOlderThan", "Other"],
    "continue": ["abc", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0"],
    "limit": ["1", "0", "-1", "x", "9223372036854775808"],
    "timeoutSeconds": ["0", "1", "-1", "x"],
    "watch": ["true", "false", "1", "maybe", ""],
    "sendInitialEvents": ["true", "false", "x"],
    "allowWatchBookmarks": ["true", "x"],
    "dryRun": ["All", "None", ""],
    "fieldManager": ["me", "", "x" * 200, "a\u0000b"],
    "fieldValidation": ["Strict", "Warn", "Ignore", "Other"],
    "force": ["true", "false", "x"],
    "propagationPolicy": ["Orphan", "Background", "Foreground", "Other"],
    "gracePeriodSeconds": ["0", "5", "-5", "x"],
    "orphanDependents": ["true", "x"],
    "pretty": ["true", "x"],
}


@dataclass(frozen=True, slots=True)
class GeneratedRequest:
    """One request."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """Path of a document with its operations."""

    path: str
    methods: dict[str, Any] = field(repr=False)
    schemas: dict[str, Any] = field(repr=False)

    def body_schema(self, method: str) -> Any:
        content = self.methods.get(method.lower(), {}).get("requestBody", {}).get("content", {})
        return next(iter(content.values()), {}).get("schema", {})


def operations_of(document: Any) -> list[Operation]:
    schemas = document.get("components", {}).get("schemas", {})
    verbs = {method.lower() for method in METHODS}
    return [
        Operation(path, {name: what for name, what in item.items() if name in verbs}, schemas)
        for path, item in sorted(document["paths"].items())
    ]


@st.composite
def requests(draw: Draw, operations: list[Operation], seeds: dict[str, Any]) -> GeneratedRequest:
    """Any request to a described path."""
    operation = draw(st.sampled_from(operations))
    described = [name.upper() for name in operation.methods] or ["GET"]
    method = draw(st.sampled_from(described * 8 + list(METHODS)))
    path = operation.path.replace("{namespace}", draw(st.sampled_from(["fuzz"] * 6 + ["nowhere", "x" * 300])))
    path = path.replace("{name}", quote(draw(st.sampled_from(["a"] * 8 + list(NAMES))), safe="%"))
    path = path.replace("{path}", "a/b").replace("{logpath}", "a")
    headers = {"Accept": draw(st.sampled_from(["application/json"] * 20 + list(ACCEPTS)))}
    body = None
    if method in ("POST", "PUT", "PATCH", "DELETE"):
        kinds = PATCHES if method == "PATCH" else ("application/json",) * 4
        headers["Content-Type"] = draw(st.sampled_from(kinds * 6 + CONTENT_TYPES))
        body = draw(bodies(operation, method, headers["Content-Type"], seeds))
    return GeneratedRequest(method, path + draw(queries(operation.methods.get(method.lower(), {}))), headers, body)


@st.composite
def queries(draw: Draw, described: Any) -> str:
    known = [one["name"] for one in described.get("parameters", []) if one["in"] == "query"]
    names = draw(st.lists(st.sampled_from(known * 3 + list(QUERY)), max_size=4))
    pairs = [(name, draw(st.sampled_from(QUERY.get(name, [""])) | TEXTS)) for name in names]
    return f"?{urlencode(pairs)}" if pairs else ""


@st.composite
def bodies(draw: Draw, operation: Operation, method: str, content_type: str, seeds: dict[str, Any]) -> bytes | None:
    shape = draw(st.integers(0, 9))
    if shape == 0:
        return draw(st.none() | st.binary(max_size=40))  # type: ignore[no-any-return]
    if shape == 1:
        return json.dumps(draw(ODD)).encode()
    if content_type == PATCHES[0]:
        return json.dumps(draw(json_patches())).encode()
    seed = seeds.get(operation.path.replace("{name}", "").rstrip("/"))
    if seed is not None and shape < 7:
        return json.dumps(draw(bent(seed))).encode()
    document = draw(values(operation.body_schema(method), operation.schemas, 4))
    if isinstance(document, dict) and draw(st.booleans()):
        document["metadata"] = {"name": "a"}
    return json.dumps(document).encode()


@st.composite
def values(draw: Draw, schema: Any, schemas: dict[str, Any], depth: int) -> Any:
    """A value that a schema allows, or now and then one that it doesn't."""
    if draw(st.integers(0, 19)) == 0:
        return draw(ODD)
    while "allOf" in schema or "$ref" in schema:
        name = (schema.get("allOf") or [schema])[0].get("$ref", "").rpartition("/")[2]
        schema = schemas.get(name, {})
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        if depth == 0:
            return {}
        wanted = set(draw(st.lists(st.sampled_from(sorted(schema["properties"])), max_size=5)))
        wanted |= set(schema.get("required", ()))
        properties = schema["properties"]
        return {name: draw(values(properties.get(name, {}), schemas, depth - 1)) for name in sorted(wanted)}
    if kind == "object":
        inner = schema.get("additionalProperties", {"type": "string"})
        keys = draw(st.lists(TEXTS, max_size=2, unique=True))
        return {key: draw(values(inner, schemas, max(depth - 1, 0))) for key in keys}
    if kind == "array":
        count = draw(st.integers(0, 2)) if depth else 0
        return [draw(values(schema.get("items", {}), schemas, depth - 1)) for _ in range(count)]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    plain = {"string": TEXTS, "integer": st.integers(-2, 70000), "boolean": st.booleans(), "number": st.floats(0, 9)}
    return draw(plain.get(kind, ODD))


@st.composite
def bent(draw: Draw, document: Any) -> Any:
    """The document with up to three places changed, removed, added or doubled."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        place = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.integers(0, 3)):
                place = place[key]
                continue
            _bend(draw, place, key)
            break
    return document


def _bend(draw: Draw, place: Any, key: Any) -> None:
    what = draw(st.sampled_from(["change", "remove", "add", "double"]))
    if what == "change":
        place[key] = draw(ODD)
    elif what == "remove":
        del place[key]
    elif isinstance(place, list):
        place.append(draw(ODD) if what == "add" else copy.deepcopy(place[key]))
    else:
        directives = ["$patch", "$retainKeys", f"$setElementOrder/{key}", f"$deleteFromPrimitiveList/{key}", "unknown"]
        place[draw(st.sampled_from(directives))] = draw(ODD | st.sampled_from(["delete", "replace", "merge"]))


@st.composite
def json_patches(draw: Draw) -> Any:
    paths = st.sampled_from(POINTERS)
    step = st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "jump"]), "path": paths},
        optional={"value": ODD, "from": paths},
    )
    return draw(st.lists(step, max_size=4))
