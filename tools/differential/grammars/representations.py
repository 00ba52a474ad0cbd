# SPDX-License-Identifier: Apache-2.0
"""Representations: tables and metadata of single objects and of lists, also as answers to writes and deletes."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tools.differential.case import Step
from tools.differential.grammars.draft import JSON, MERGE_PATCH, Draft
from tools.differential.mutate import mutated
from tools.differential.seeds import Seed, cleanup_of

_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_ACCEPTS = (
    _TABLE,
    _TABLE,
    "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
    "application/json;as=Table;g=meta.k8s.io;v=v1, application/json",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
    "application/json;as=Table;g=meta.k8s.io;v=v2, */*",
    "application/json;as=Table",
    "application/yaml",
    "application/json;pretty=1",
    "application/json;q=0.5, application/yaml",
)
_INCLUDES = ("None", "Metadata", "Object", "Other")


def representations(rng: random.Random, seeds: Sequence[Seed]) -> Draft:
    """Return a create and three requests for other representations of the object."""
    seed = rng.choice(seeds)
    document = seed.document
    if rng.random() < 0.4:
        document = mutated(rng, document, seed.resource.schema, seed.resource.schemas)
    steps = [_step(rng, seed, Step("POST", seed.collection, document, dict(JSON)))]
    label = {"metadata": {"labels": {"x": "y"}}}
    name = str(seed.document["metadata"]["name"])
    requests = (
        Step("GET", seed.path),
        Step("GET", seed.path),
        Step("GET", f"{seed.collection}?fieldSelector=metadata.name%3D{name}"),
        Step("GET", f"{seed.collection}?fieldSelector=metadata.name%3D{name}"),
        Step("PATCH", seed.path, label, {"Content-Type": MERGE_PATCH}),
        Step("DELETE", seed.path),
    )
    steps += [_step(rng, seed, rng.choice(requests)) for _ in range(3)]
    return Draft(tuple(steps), cleanup_of(seed, steps))


def _step(rng: random.Random, seed: Seed, step: Step) -> Step:
    options = []
    if rng.random() < 0.4:
        options.append(f"includeObject={rng.choice(_INCLUDES)}")
    if seed.is_dry_run and step.method != "GET":
        options.append("dryRun=All")
    headers = {**step.headers, "Accept": rng.choice(_ACCEPTS)} if rng.random() < 0.8 else step.headers
    mark = "&" if "?" in step.path else "?"
    return Step(step.method, step.path + (mark + "&".join(options) if options else ""), step.body, headers)
