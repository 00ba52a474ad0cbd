# SPDX-License-Identifier: Apache-2.0
"""Helpers for validation tests: a valid manifest, one change to it, and the resulting errors."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from kubeloop.api import codec, kinds
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES
from kubeloop.api.strategy import strategy_of
from kubeloop.api.validation import ObjectValidator

# The resource of the stored version comes last, and thus replaces those of other versions.
RESOURCES = {
    resource.group_resource: resource
    for resource in sorted((*kinds.RESOURCES, *OPTIONAL_RESOURCES), key=lambda one: one.storage_override is None)
}
Manifest = dict[str, Any]


def altered(manifest: Manifest, changes: dict[str, Any]) -> Manifest:
    """Return a copy with values set at dotted paths; numbers are list indexes."""
    result = deepcopy(manifest)
    for path, value in changes.items():
        *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        at: Any = result
        for step in parents:
            at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
        at[last] = value
    return result


def decoded(qualified: str, manifest: Manifest) -> Any:
    resource = RESOURCES[qualified]
    named = altered(manifest, {})
    named["metadata"] = {"name": "x", **named.get("metadata", {})}
    if resource.namespaced:
        named["metadata"].setdefault("namespace", "default")
    obj = codec.from_plain(named, resource.type)
    apply_defaults(obj)
    return obj


def create_problems(qualified: str, manifest: Manifest, features: Features = DEFAULT_FEATURES) -> list[str]:
    """Return the errors of a new object as field and message."""
    obj = decoded(qualified, manifest)
    strategy_of(RESOURCES[qualified]).prepare_create(obj, features)
    return sorted(error.message() for error in ObjectValidator(features).validate_create(obj))


def update_problems(
    qualified: str,
    old: Manifest,
    new: Manifest,
    subresource: str = "",
    features: Features = DEFAULT_FEATURES,
) -> list[str]:
    """Return the errors of an update from one manifest to another."""
    stored = {"resourceVersion": "1", "uid": "u"}
    before, after = (altered(one, {"metadata": {**one.get("metadata", {}), **stored}}) for one in (old, new))
    validator = ObjectValidator(features)
    errors = validator.validate_update(decoded(qualified, after), decoded(qualified, before), subresource)
    return sorted(error.message() for error in errors)
