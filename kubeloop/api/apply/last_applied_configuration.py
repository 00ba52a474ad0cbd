# SPDX-License-Identifier: Apache-2.0
"""Migration from kubectl's client-side apply, which stores its configuration in an annotation.

Only the manager called `kubectl` takes part, so that clients can opt out by using another name.
"""

from __future__ import annotations

import json
from typing import Any

from kubeloop.api.apply.conflicts import FieldConflict
from kubeloop.api.apply.fields.compare import compare
from kubeloop.api.apply.fields.fieldset import FieldTree, difference, has_path, union
from kubeloop.api.apply.merge import applied_fields
from kubeloop.api.apply.shape import OwnershipShape
from kubeloop.api.apply.validate import iter_schema_errors

MANAGER = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS = 256 * 1024


def remaining_conflicts(
    conflicts: list[FieldConflict], live: dict[str, Any], shape: OwnershipShape, api_version: str
) -> list[FieldConflict]:
    """Return the remaining conflicts, without fields that client-side apply set and that are unchanged since."""
    allowed = _still_as_applied(live, shape, api_version)
    return [conflict for conflict in conflicts if not has_path(allowed, conflict.path)]


def _still_as_applied(live: dict[str, Any], shape: OwnershipShape, api_version: str) -> FieldTree:
    try:
        config = json.loads(_annotations(live).get(ANNOTATION) or "null")
    except ValueError:
        return {}
    if (
        not isinstance(config, dict)
        or config.get("apiVersion") != api_version
        or any(iter_schema_errors(config, shape))
    ):
        return {}
    comparison = compare(config, live, shape)
    return difference(applied_fields(config, shape), union(comparison.changed, comparison.removed))


def update_last_applied(obj: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Return the object with its last-applied annotation, if it has one, updated to the applied configuration."""
    if not _annotations(obj).get(ANNOTATION):
        return obj
    annotations = {**_annotations(obj), ANNOTATION: _encoded(config)}
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MAX_ANNOTATIONS:
        del annotations[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _encoded(config: dict[str, Any]) -> str:
    """Encode an object as upstream does: keys sorted, HTML characters escaped, a newline at the end."""
    plain = dict(config)
    metadata = config.get("metadata") or {}
    if ANNOTATION in _annotations(config):
        kept = {key: value for key, value in metadata["annotations"].items() if key != ANNOTATION}
        plain["metadata"] = {**metadata, "annotations": kept}
        if not kept:
            del plain["metadata"]["annotations"]
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026") + "\n"


def _annotations(obj: dict[str, Any]) -> dict[str, Any]:
    found = (obj.get("metadata") or {}).get("annotations")
    return found if isinstance(found, dict) else {}
