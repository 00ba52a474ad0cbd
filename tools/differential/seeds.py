# SPDX-License-Identifier: Apache-2.0
"""Seeds: one valid object of each kind, from which cases start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from tools.differential.case import NAMESPACE, Step
from tools.differential.openapi import ServedResource

_SEEDS = Path(__file__).with_name("seeds.yaml")


@dataclass(frozen=True, slots=True)
class Seed:
    """Valid object of one resource; `is_dry_run` marks kinds that must not be stored."""

    resource: ServedResource
    document: dict[str, Any]
    is_dry_run: bool

    @property
    def collection(self) -> str:
        """Path of the objects in the namespace of the case."""
        return self.resource.collection.replace("{namespace}", NAMESPACE)

    @property
    def path(self) -> str:
        """Path of the object."""
        return f"{self.collection}/{self.document['metadata']['name']}"


def read_seeds(resources: Sequence[ServedResource]) -> list[Seed]:
    """Return the valid objects of all resources that the server has."""
    by_kind = {(one.api_version, one.kind): one for one in resources}
    found = []
    for document in yaml.safe_load(_SEEDS.read_text()):
        is_dry_run = document.pop("dryRun", False)
        if resource := by_kind.get((document["apiVersion"], document["kind"])):
            found.append(Seed(resource, document, is_dry_run))
    return found


def cleanup_of(seed: Seed, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the paths of the objects that steps leave behind outside of the namespace."""
    if seed.resource.is_namespaced or seed.is_dry_run:
        return ()
    return (seed.path, *_paths_of_created(seed, steps))


def _paths_of_created(seed: Seed, steps: Sequence[Step]) -> Iterator[str]:
    """Yield the paths of objects that creates of other names may leave behind."""
    for step in steps:
        metadata = step.body.get("metadata") if step.method == "POST" and isinstance(step.body, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if isinstance(name, str) and name and name != seed.document["metadata"]["name"]:
            yield f"{seed.collection}/{quote(name, safe='')}"
