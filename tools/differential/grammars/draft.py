# SPDX-License-Identifier: Apache-2.0
"""Drafts: what a grammar writes, and the requests that many grammars begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tools.differential.case import Step
from tools.differential.seeds import Seed

JSON = {"Content-Type": "application/json"}
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Draft:
    """Steps of a case, and the paths of objects outside of the namespace that they leave behind."""

    steps: tuple[Step, ...]
    cleanup: tuple[str, ...] = ()


def create(path: str, body: Any, headers: dict[str, str] | None = None) -> Step:
    """Return a request that creates an object."""
    return Step("POST", path, body, {**JSON, **(headers or {})})


def patch(path: str, media_type: str, body: Any, query: str = "") -> Step:
    """Return a patch."""
    return Step("PATCH", f"{path}?{query}" if query else path, body, {"Content-Type": media_type})


def renamed(seed: Seed, name: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return the document of a seed with another name and labels."""
    metadata = {**seed.document["metadata"], "name": name, "labels": labels}
    return {**seed.document, "metadata": metadata}


def stored(seeds: list[Seed] | tuple[Seed, ...]) -> list[Seed]:
    """Return the seeds in namespaces that may be stored."""
    return [one for one in seeds if one.resource.is_namespaced and not one.is_dry_run]
