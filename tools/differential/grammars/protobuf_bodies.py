# SPDX-License-Identifier: Apache-2.0
"""Protobuf: objects sent and answered in the encoding of typed Go clients."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kubeloop.api.protobuf import encode_object
from tools.differential.case import PROTOBUF, Step
from tools.differential.grammars.draft import JSON, Draft
from tools.differential.mutate import mutated
from tools.differential.seeds import Seed, cleanup_of

_SENT = {"Content-Type": PROTOBUF}
_DELETE_OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
_TRIES = 5


def protobuf_bodies(rng: random.Random, seeds: Sequence[Seed]) -> Draft:
    """Return a create, a read, an update and a delete, with the body or the answer as protobuf."""
    seed = rng.choice([one for one in seeds if one.document["kind"] != "CustomResourceDefinition"])
    steps = [_step(rng, seed, "POST", seed.collection, _encodable(rng, seed))]
    if rng.random() < 0.6:
        document = _encodable(rng, seed)
        document["metadata"] = {**document["metadata"], "resourceVersion": rng.choice(("{rv:0}", "{rv:0}", ""))}
        steps.append(_step(rng, seed, "PUT", seed.path, document))
    if rng.random() < 0.6:
        steps.append(_step(rng, seed, "GET", seed.path, None))
    if rng.random() < 0.5:
        steps.append(_step(rng, seed, "DELETE", seed.path, rng.choice((None, _DELETE_OPTIONS))))
    return Draft(tuple(steps), cleanup_of(seed, steps))


def _encodable(rng: random.Random, seed: Seed) -> dict[str, Any]:
    """Return the seed's document or a mutated one, if a message can have its values."""
    for _ in range(_TRIES if rng.random() < 0.6 else 0):
        document = mutated(rng, seed.document, seed.resource.schema, seed.resource.schemas)
        try:
            encode_object(document)
        except Exception:  # a mutated value can be of any wrong type
            continue
        if isinstance(document.get("metadata"), dict) and _fits(document):
            return dict(document)
    return dict(seed.document)


def _fits(value: Any) -> bool:
    """Return True if all integers have 32 bits: typed clients have no others for most fields."""
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    if isinstance(value, list):
        return all(map(_fits, value))
    return not isinstance(value, int) or abs(value) < 1 << 31


def _step(rng: random.Random, seed: Seed, method: str, path: str, body: Any) -> Step:
    query = "?dryRun=All" if seed.is_dry_run and method != "GET" else ""
    headers = {} if body is None else dict(_SENT if rng.random() < 0.7 else JSON)
    if rng.random() < 0.5:
        headers["Accept"] = PROTOBUF
    return Step(method, path + query, body, headers)
