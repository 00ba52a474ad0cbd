# SPDX-License-Identifier: Apache-2.0
"""Options of requests: query parameters, headers and DeleteOptions, valid and invalid ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

_WRITE: Mapping[str, Sequence[str]] = {
    "fieldManager": ("one", "two", "x" * 129, "a\nb"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "Other", ""),
    "dryRun": ("All", "None", ""),
    "pretty": ("true",),
}
_LIST: Mapping[str, Sequence[str]] = {
    "labelSelector": ("app=a", "app in (a,b)", "!app", "app notin (a)", "app==a,zone", "a in ()", "a=b,,", "-a", "x>1"),
    "fieldSelector": ("metadata.name=a", "metadata.namespace!=x", "spec.nodeName=", "bad", "status.phase=Running"),
    "limit": ("1", "0", "-1", "x"),
    "resourceVersion": ("0", "1", "x", "-1"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "Other"),
    "continue": ("abc",),
    "timeoutSeconds": ("5", "-1", "x"),
    "sendInitialEvents": ("true", "x"),
}
_DELETE: Mapping[str, Sequence[str]] = {
    "propagationPolicy": ("Orphan", "Background", "Foreground", "Other"),
    "gracePeriodSeconds": ("0", "5", "-5", "x"),
    "orphanDependents": ("true", "x"),
    "dryRun": ("All", "None"),
}
_ACCEPTS = (
    "application/json",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=Nothing;g=meta.k8s.io;v=v1",
    "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
    "text/html",
    "*/*",
)
_DELETE_BODIES: Sequence[Any] = (
    {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"},
    {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0},
    {"preconditions": {"uid": "x"}},
    {"preconditions": {"resourceVersion": "{rv:0}", "uid": "{uid:0}"}},
    {"propagationPolicy": "Other"},
    {"orphanDependents": True, "propagationPolicy": "Orphan"},
    {"kind": "Pod", "apiVersion": "v1"},
    {"dryRun": ["All"]},
    {"dryRun": ["Some"]},
    "{",
)


def write_options(rng: random.Random) -> str:
    """Return the query of a write; mostly empty."""
    return _query(rng, _WRITE, 0.15)


def list_options(rng: random.Random) -> str:
    """Return the query of a list."""
    return _query(rng, _LIST, 0.3)


def delete_options(rng: random.Random) -> str:
    """Return the query of a delete."""
    return _query(rng, _DELETE, 0.2)


def apply_options(rng: random.Random, managers: Sequence[str]) -> str:
    """Return the query of a server-side apply."""
    pairs = [("fieldManager", rng.choice(managers))] if rng.random() < 0.95 else []
    if rng.random() < 0.3:
        pairs.append(("force", rng.choice(("true", "false", "x"))))
    if rng.random() < 0.1:
        pairs.append(("dryRun", "All"))
    return urlencode(pairs)


def delete_body(rng: random.Random) -> Any:
    """Return DeleteOptions, or None for a delete without a body."""
    return rng.choice(_DELETE_BODIES) if rng.random() < 0.6 else None


def accept_header(rng: random.Random) -> dict[str, str]:
    """Return an Accept header; mostly none."""
    return {"Accept": rng.choice(_ACCEPTS)} if rng.random() < 0.5 else {}


def _query(rng: random.Random, options: Mapping[str, Sequence[str]], probability: float) -> str:
    return urlencode([(name, rng.choice(values)) for name, values in options.items() if rng.random() < probability])
