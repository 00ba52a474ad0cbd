# SPDX-License-Identifier: Apache-2.0
"""Mutations of JSON documents, guided by the schema of the object."""

from __future__ import annotations

import copy
import random
from typing import Any

from tools.differential.openapi import resolve

_MAX_DEPTH = 4
_ODD_VALUES: tuple[Any, ...] = (None, True, 0, -1, 1.5, 1 << 31, 1 << 63, "", "a", [], {}, [None], {"a": None})
_NAMES = ("a", "b", "web", "a-b", "a.b", "A", "-a", "a_b", "x" * 63, "x" * 64, "x" * 254, "a/b", "ex.io/a", "1", "")
_TEXTS = (*_NAMES, "10.0.0.1", "::1", "10.0.0.0/8", "1Gi", "500m", "-1", "1e3", "50%", "*", "http", "TCP", "Always")
_INTEGERS = (0, 1, 2, -1, 5, 80, 443, 65535, 65536, 100, 1 << 31, -(1 << 31), (1 << 31) - 1)
# Values that a field of this name takes: drawn from upstream's API conventions, valid and invalid ones.
_BY_FIELD: dict[str, tuple[Any, ...]] = {
    "restartPolicy": ("Always", "OnFailure", "Never", "Sometimes"),
    "imagePullPolicy": ("Always", "IfNotPresent", "Never", "Maybe"),
    "protocol": ("TCP", "UDP", "SCTP", "ICMP"),
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "Near"),
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute", "NoWay"),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway", "Wait"),
    "topologyKey": ("kubernetes.io/hostname", "zone", "", "a b"),
    "dnsPolicy": ("ClusterFirst", "Default", "None", "Other"),
    "accessModes": (["ReadWriteOnce"], ["ReadOnlyMany", "ReadWriteOncePod"], ["Write"], []),
    "volumeMode": ("Filesystem", "Block", "Tape"),
    "type": (
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "ExternalName",
        "RollingUpdate",
        "Recreate",
        "OnDelete",
        "Opaque",
    ),
    "policyTypes": (["Ingress"], ["Egress", "Ingress"], ["Both"]),
    "completionMode": ("Indexed", "NonIndexed", "Other"),
    "concurrencyPolicy": ("Allow", "Forbid", "Replace", "Queue"),
    "schedule": ("*/5 * * * *", "@hourly", "61 * * * *", "TZ=UTC 0 0 * * *", ""),
    "timeZone": ("Europe/Berlin", "Local", "Nowhere/City"),
    "pathType": ("Exact", "Prefix", "ImplementationSpecific", "Regex"),
    "verbs": (["get"], ["*"], [], ["get", "*"]),
    "apiGroups": ([""], ["apps"], ["*"], []),
    "resources": ({}, {"requests": {"cpu": "1"}, "limits": {"cpu": "500m"}}, ["pods"], ["pods/*"]),
    "failurePolicy": ("Fail", "Ignore", "Panic"),
    "sideEffects": ("None", "Some", "Unknown"),
    "matchLabels": ({"a": "b"}, {"a b": "c"}, {"a": "-"}, {}),
    "labels": ({"a": "b"}, {"a/b/c": "d"}, {"ok": "x" * 64}, {}),
    "annotations": ({"a": "b"}, {"a b": "c"}, {}),
    "finalizers": (["ex.io/f"], ["f"], ["a b"], ["foregroundDeletion"]),
    "generateName": ("g-", "G-", "x" * 70),
    "expression": ("true", "object.spec.replicas > 1", "1 +", "size(self) > 0", "'a'"),
}
_DEPENDENT_TYPES = {"string": _TEXTS, "integer": _INTEGERS, "boolean": (True, False), "number": (0, 0.5, -1)}


def mutated(rng: random.Random, document: Any, schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Return the document with one to three places changed, removed, added or duplicated."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _mutate_once(rng, document, resolve(schema, schemas), schemas)
    return document


def _mutate_once(rng: random.Random, place: Any, schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Walk down to a random place and change it."""
    while True:
        keys = _keys_of(place)
        if keys and rng.random() < 0.7:
            key = rng.choice(keys)
            inner = _schema_at(schema, key, schemas)
            if _keys_of(place[key]):
                place, schema = place[key], inner
                continue
            _change(rng, place, key, inner, schemas)
            return
        _add(rng, place, schema, schemas)
        return


def _keys_of(place: Any) -> list[Any]:
    if isinstance(place, dict):
        return [key for key in place if key not in ("apiVersion", "kind")] or list(place)
    return list(range(len(place))) if isinstance(place, list) else []


def _schema_at(schema: dict[str, Any], key: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    if isinstance(key, int):
        return resolve(schema.get("items") or {}, schemas)
    inner = (schema.get("properties") or {}).get(key) or schema.get("additionalProperties") or {}
    return resolve(inner, schemas) if isinstance(inner, dict) else {}


def _change(rng: random.Random, place: Any, key: Any, schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    how = rng.random()
    if how < 0.2:
        del place[key]
    elif how < 0.3 and isinstance(place, list):
        place.append(copy.deepcopy(place[key]))
    elif how < 0.4:
        place[key] = copy.deepcopy(rng.choice(_ODD_VALUES))
    else:
        place[key] = value_of(rng, str(key), schema, schemas, _MAX_DEPTH)


def _add(rng: random.Random, place: Any, schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    if isinstance(place, list):
        place.append(value_of(rng, "", resolve(schema.get("items") or {}, schemas), schemas, _MAX_DEPTH))
        return
    names = sorted(schema.get("properties") or {}) or list(_NAMES)
    if rng.random() < 0.05:
        names = ["unknownField"]
    name = rng.choice(names)
    place[name] = value_of(rng, name, _schema_at(schema, name, schemas), schemas, _MAX_DEPTH)


def value_of(rng: random.Random, name: str, schema: dict[str, Any], schemas: dict[str, Any], depth: int) -> Any:
    """Return a value for a field, mostly one that its schema permits."""
    schema = resolve(schema, schemas)
    if name in _BY_FIELD and rng.random() < 0.8:
        return copy.deepcopy(rng.choice(_BY_FIELD[name]))
    if "enum" in schema:
        return rng.choice([*schema["enum"], "Other"])
    if rng.random() < 0.04:
        return copy.deepcopy(rng.choice(_ODD_VALUES))
    kind = schema.get("type")
    if kind == "array":
        count = rng.choice((0, 1, 1, 2)) if depth else 0
        return [value_of(rng, "", schema.get("items") or {}, schemas, depth - 1) for _ in range(count)]
    if kind == "object":
        return _object_of(rng, schema, schemas, depth)
    if kind == "string":
        return _text_of(rng, name, str(schema.get("format") or ""))
    return rng.choice(_DEPENDENT_TYPES.get(str(kind), (*_TEXTS, *_INTEGERS)))


def _object_of(rng: random.Random, schema: dict[str, Any], schemas: dict[str, Any], depth: int) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties") or {}
    if not properties:
        inner = schema.get("additionalProperties")
        inner = inner if isinstance(inner, dict) else {"type": "string"}
        keys = rng.sample(_NAMES, rng.choice((0, 1, 2)))
        return {key: value_of(rng, "", inner, schemas, max(depth - 1, 0)) for key in keys}
    if depth <= 0:
        return {}
    names = set(rng.sample(sorted(properties), min(len(properties), rng.choice((0, 1, 1, 2, 3)))))
    if rng.random() < 0.9:
        names |= set(schema.get("required") or ())
    return {name: value_of(rng, name, properties.get(name) or {}, schemas, depth - 1) for name in sorted(names)}


def _text_of(rng: random.Random, name: str, form: str) -> str:
    if form == "date-time":
        return rng.choice(("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+02:00", "yesterday", ""))
    if form == "byte":
        return rng.choice(("YQ==", "YQ", "", "%"))
    if name in ("name", "namespace"):
        return rng.choice(_NAMES)
    return rng.choice(_TEXTS)
