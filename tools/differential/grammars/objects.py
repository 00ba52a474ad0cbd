# SPDX-License-Identifier: Apache-2.0
"""Objects: creates of valid and mutated objects, then updates, patches, reads, deletes and subresources."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from tools.differential.case import Step
from tools.differential.grammars.draft import JSON, Draft
from tools.differential.mutate import mutated, value_of
from tools.differential.options import (
    accept_header,
    apply_options,
    delete_body,
    delete_options,
    list_options,
    write_options,
)
from tools.differential.seeds import Seed, cleanup_of

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_MANAGERS = ("one", "two")


def objects(rng: random.Random, seeds: Sequence[Seed]) -> Draft:
    """Return a case around one seed."""
    seed = rng.choice(seeds)
    steps = _CaseBuilder(rng, seed).build()
    return Draft(tuple(steps), cleanup_of(seed, steps))


class _CaseBuilder:
    """Builds the steps of one case around one seed."""

    def __init__(self, rng: random.Random, seed: Seed) -> None:
        self._rng = rng
        self._seed = seed

    def build(self) -> list[Step]:
        """Return a create, mostly of a valid object, and one to three requests that meet its result."""
        rng = self._rng
        is_valid = rng.random() < 0.5
        steps = [self._create(self._seed.document if is_valid else self._mutant())]
        actions: tuple[Callable[[], Step], ...] = (
            self._update,
            self._update,
            self._json_patch,
            self._merge_patch,
            self._strategic_patch,
            self._apply,
            self._apply,
            self._read,
            self._list,
            self._delete,
            self._subresource,
        )
        steps += [rng.choice(actions)() for _ in range(rng.choice((1, 2, 2, 3)))]
        return steps

    def _mutant(self) -> Any:
        resource = self._seed.resource
        return mutated(self._rng, self._seed.document, resource.schema, resource.schemas)

    def _step(self, method: str, path: str, query: str, body: Any, headers: dict[str, str]) -> Step:
        if self._seed.is_dry_run and method != "GET":
            query = f"{query}&dryRun=All" if query else "dryRun=All"
        return Step(method, f"{path}?{query}" if query else path, body, headers)

    def _create(self, document: Any) -> Step:
        return self._step("POST", self._seed.collection, write_options(self._rng), document, self._headers())

    def _update(self) -> Step:
        document = copy.deepcopy(self._mutant())
        metadata = document.get("metadata") if isinstance(document, dict) else None
        if isinstance(metadata, dict) and self._rng.random() < 0.7:
            metadata["resourceVersion"] = self._rng.choice(("{rv:0}", "{rv:0}", "{rv:0}", "0", "1", "x"))
        return self._step("PUT", self._path(), write_options(self._rng), document, self._headers())

    def _json_patch(self) -> Step:
        operations = [self._patch_operation() for _ in range(self._rng.choice((1, 1, 2)))]
        return self._patch(_JSON_PATCH, operations, write_options(self._rng))

    def _patch_operation(self) -> dict[str, Any]:
        rng = self._rng
        name = rng.choice(("add", "replace", "remove", "test", "move", "copy", "other"))
        operation = {"op": name, "path": self._pointer()}
        if name in ("move", "copy"):
            operation["from"] = self._pointer()
        elif name != "remove":
            operation["value"] = value_of(rng, operation["path"].rpartition("/")[2], {}, {}, 1)
        return operation

    def _pointer(self) -> str:
        """Return a JSON pointer, mostly to a place in the seed's document."""
        place: Any = self._seed.document
        pointer = ""
        while self._rng.random() < 0.8:
            keys = list(place) if isinstance(place, dict) else range(len(place)) if isinstance(place, list) else ()
            if not keys:
                break
            key = self._rng.choice(keys)
            pointer += "/" + str(key).replace("~", "~0").replace("/", "~1")
            place = place[key]
        return pointer + self._rng.choice(("", "", "", "/-", "/0", "/new"))

    def _merge_patch(self) -> Step:
        return self._patch(_MERGE_PATCH, self._part(), write_options(self._rng))

    def _strategic_patch(self) -> Step:
        patch = self._part()
        if isinstance(patch, dict) and self._rng.random() < 0.2:
            patch["$patch"] = self._rng.choice(("replace", "merge", "delete", "other"))
        return self._patch(_STRATEGIC_PATCH, patch, write_options(self._rng))

    def _part(self) -> Any:
        """Return a mutated document with only some of its top-level fields."""
        document = self._mutant()
        if not isinstance(document, dict):
            return document
        return {key: value for key, value in document.items() if self._rng.random() < 0.6}

    def _apply(self) -> Step:
        document = self._mutant() if self._rng.random() < 0.6 else copy.deepcopy(self._seed.document)
        return self._patch(_APPLY_PATCH, document, apply_options(self._rng, _MANAGERS))

    def _patch(self, media_type: str, body: Any, query: str) -> Step:
        return self._step("PATCH", self._path(), query, body, {"Content-Type": media_type})

    def _read(self) -> Step:
        return self._step("GET", self._path(), "", None, accept_header(self._rng))

    def _list(self) -> Step:
        path = self._seed.collection
        # Lists of a whole cluster also contain objects of concurrent cases.
        query = list_options(self._rng)
        if not self._seed.resource.is_namespaced:
            query = f"fieldSelector=metadata.name%3D{quote(self._seed.document['metadata']['name'])}&{query}".rstrip(
                "&"
            )
        return self._step("GET", path, query, None, accept_header(self._rng))

    def _delete(self) -> Step:
        body = delete_body(self._rng)
        headers = JSON if body is not None else {}
        return self._step("DELETE", self._path(), delete_options(self._rng), body, dict(headers))

    def _subresource(self) -> Step:
        known = [one for one in self._seed.resource.subresources if one in ("status", "scale", "approval", "resize")]
        if not known:
            return self._read()
        path = f"{self._path()}/{self._rng.choice(known)}"
        method = self._rng.choice(("GET", "PUT", "PATCH"))
        if method == "GET":
            return self._step("GET", path, "", None, {})
        body = self._mutant()
        if method == "PUT":
            return self._step("PUT", path, write_options(self._rng), body, self._headers())
        return self._step("PATCH", path, write_options(self._rng), body, {"Content-Type": _MERGE_PATCH})

    def _path(self) -> str:
        return self._seed.path if self._rng.random() < 0.95 else f"{self._seed.collection}/missing"

    def _headers(self) -> dict[str, str]:
        if self._rng.random() < 0.95:
            return dict(JSON)
        return {"Content-Type": self._rng.choice(("application/yaml", "text/plain", "application/json; charset=utf-8"))}
