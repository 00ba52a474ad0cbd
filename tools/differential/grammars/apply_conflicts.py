# SPDX-License-Identifier: Apache-2.0
"""Server-side apply: several managers apply, update and give up fields of one object, with and without force."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from tools.differential.case import Step
from tools.differential.grammars.draft import APPLY_PATCH, JSON, MERGE_PATCH, Draft, patch
from tools.differential.mutate import mutated
from tools.differential.seeds import Seed, cleanup_of

_MANAGERS = ("one", "two", "three")


def apply_conflicts(rng: random.Random, seeds: Sequence[Seed]) -> Draft:
    """Return three to six applies and updates of one object, and a read of it."""
    seed = rng.choice([one for one in seeds if not one.is_dry_run])
    steps = [_apply(rng, seed, copy.deepcopy(seed.document))]
    steps += [_next(rng, seed) for _ in range(rng.choice((2, 3, 4, 5)))]
    steps.append(Step("GET", seed.path))
    return Draft(tuple(steps), cleanup_of(seed, steps))


def _next(rng: random.Random, seed: Seed) -> Step:
    how = rng.random()
    if how < 0.7:
        return _apply(rng, seed, _document(rng, seed))
    query = urlencode({"fieldManager": rng.choice(_MANAGERS)})
    if how < 0.85:
        return patch(seed.path, MERGE_PATCH, _document(rng, seed), query)
    if how < 0.93 and "status" in seed.resource.subresources:
        return _apply(rng, seed, _document(rng, seed), "/status")
    return Step("PUT", f"{seed.path}?{query}", _mutant(rng, seed), dict(JSON))


def _mutant(rng: random.Random, seed: Seed) -> Any:
    return mutated(rng, seed.document, seed.resource.schema, seed.resource.schemas)


def _document(rng: random.Random, seed: Seed) -> Any:
    """Return the seed's document, changed or with fewer fields."""
    document = _mutant(rng, seed) if rng.random() < 0.6 else copy.deepcopy(seed.document)
    if isinstance(document, dict) and rng.random() < 0.5:
        _thin_out(rng, {key: one for key, one in document.items() if key not in ("apiVersion", "kind", "metadata")})
        for key in [one for one in document if one not in ("apiVersion", "kind", "metadata")]:
            if rng.random() < 0.2:
                del document[key]
    return document


def _thin_out(rng: random.Random, place: Any) -> None:
    """Remove some of the fields below a place."""
    if isinstance(place, list):
        for one in place:
            _thin_out(rng, one)
    elif isinstance(place, dict):
        for key in list(place):
            if isinstance(place[key], (dict, list)):
                _thin_out(rng, place[key])
            elif key not in ("name", "type", "kind") and rng.random() < 0.2:
                del place[key]


def _apply(rng: random.Random, seed: Seed, document: Any, subresource: str = "") -> Step:
    query = {"fieldManager": rng.choice(_MANAGERS)}
    if rng.random() < 0.4:
        query["force"] = rng.choice(("true", "true", "false"))
    if rng.random() < 0.1:
        query["dryRun"] = "All"
    if rng.random() < 0.1:
        query["fieldValidation"] = rng.choice(("Strict", "Warn", "Ignore"))
    return patch(seed.path + subresource, APPLY_PATCH, document, urlencode(query))
