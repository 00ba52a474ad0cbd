# SPDX-License-Identifier: Apache-2.0
"""Deletes of collections: several objects, a delete with selectors and options, and a list of what is left."""

from __future__ import annotations

import random
from collections.abc import Sequence
from urllib.parse import urlencode

from tools.differential.case import Step
from tools.differential.grammars.draft import JSON, Draft, create, renamed, stored
from tools.differential.options import accept_header, delete_body, delete_options
from tools.differential.seeds import Seed

_SELECTORS = ("app=a", "app in (a,b)", "!app", "app!=a", "app", "a in ()", "app=a,zone=b")
_FIELDS = ("metadata.name=a0", "metadata.name!=a0", "metadata.namespace={ns}", "spec.x=y", "bad")
_LIST_OPTIONS: dict[str, tuple[str, ...]] = {
    "limit": ("1", "0", "-1", "x"),
    "resourceVersion": ("x", "-1"),  # with a version, caches may return less than was created
    "resourceVersionMatch": ("Exact", "NotOlderThan", "Other"),
    "timeoutSeconds": ("5", "x"),
    "fieldValidation": ("Strict",),
}


def delete_collections(rng: random.Random, seeds: Sequence[Seed]) -> Draft:
    """Return creates of one to three objects, a delete of the collection and a list."""
    seed = rng.choice(stored(tuple(seeds)))
    steps = [
        create(seed.collection, _labelled(rng, renamed(seed, f"a{number}", {"app": rng.choice("abc")})))
        for number in range(rng.choice((1, 2, 3)))
    ]
    steps.append(_delete(rng, seed))
    steps.append(Step("GET", seed.collection, None, accept_header(rng)))
    if rng.random() < 0.3:
        steps += [_delete(rng, seed), Step("GET", seed.collection)]
    return Draft(tuple(steps))


def _labelled(rng: random.Random, document: dict[str, object]) -> dict[str, object]:
    metadata = document["metadata"]
    if rng.random() < 0.2 and isinstance(metadata, dict):
        metadata["finalizers"] = ["ex.io/f"]
    return document


def _delete(rng: random.Random, seed: Seed) -> Step:
    pairs: list[tuple[str, str]] = []
    if rng.random() < 0.5:
        pairs.append(("labelSelector", rng.choice(_SELECTORS)))
    if rng.random() < 0.2:
        pairs.append(("fieldSelector", rng.choice(_FIELDS)))
    pairs += [(name, rng.choice(values)) for name, values in _LIST_OPTIONS.items() if rng.random() < 0.07]
    query = "&".join(part for part in (urlencode(pairs, safe="{}:"), delete_options(rng)) if part)
    body = delete_body(rng)
    headers = {**(JSON if body is not None else {}), **(accept_header(rng) if rng.random() < 0.2 else {})}
    return Step("DELETE", f"{seed.collection}?{query}" if query else seed.collection, body, headers)
