# SPDX-License-Identifier: Apache-2.0
"""Tables of invalid writes: changes of a valid manifest, and the errors that a server reports for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kubeloop.api.features.gates import DEFAULT_FEATURES, STAGES, Features
from kubeloop.api.strategy import strategy_of
from kubeloop.api.validation import ObjectValidator
from tests.unit.api.validation.manifests import RESOURCES, Manifest, altered, decoded

Changes = dict[str, Any]
# Every gate is on, so that no field is dropped before validation.
ALL_FEATURES = Features(frozenset(STAGES))
_STORED = {"resourceVersion": "1", "uid": "u"}


@dataclass(frozen=True)
class Case:
    """Invalid write with its errors in order; an update, possibly of a subresource, has the manifest it replaces."""

    resource: str
    manifest: Manifest
    errors: list[str]
    old: Manifest | None = None
    subresource: str = ""
    features: Features = DEFAULT_FEATURES

    def found(self) -> list[str]:
        """Return the errors that validation reports."""
        validator = ObjectValidator(self.features)
        if self.old is None:
            obj = decoded(self.resource, self.manifest)
            strategy_of(RESOURCES[self.resource]).prepare_create(obj, self.features)
            return [error.message() for error in validator.validate_create(obj)]
        new, old = (decoded(self.resource, _stored(one)) for one in (self.manifest, self.old))
        self._prepare_update(new, old)
        return [error.message() for error in validator.validate_update(new, old, self.subresource)]

    def _prepare_update(self, new: Any, old: Any) -> None:
        """Drop the changes that an update, or one of the subresource, does not make."""
        strategy = strategy_of(RESOURCES[self.resource])
        if not self.subresource:
            strategy.prepare_update(new, old, self.features)
        elif self.subresource in strategy.subresource_updates:
            strategy.subresource_updates[self.subresource](new, old, self.features)
        else:
            strategy.prepare_status_update(new, old, self.features)


def creates(
    resource: str,
    base: Manifest,
    table: Iterable[tuple[Changes, list[str]]],
    features: Features = DEFAULT_FEATURES,
) -> Iterator[Case]:
    """Yield cases of new objects; a row has the changes of the valid manifest, and the errors."""
    for changes, errors in table:
        yield Case(resource, _without_nulls(altered(base, changes)), errors, features=features)


def updates(
    resource: str,
    base: Manifest,
    table: Iterable[tuple[Changes, Changes, list[str]]],
    subresource: str = "",
    features: Features = DEFAULT_FEATURES,
) -> Iterator[Case]:
    """Yield cases of updates; a row has the changes before and after, both to the valid manifest, and the errors."""
    for before, after, errors in table:
        new, old = (_without_nulls(altered(base, changes)) for changes in (after, before))
        yield Case(resource, new, errors, old, subresource, features)


def _stored(manifest: Manifest) -> Manifest:
    return altered(manifest, {"metadata": {**_STORED, **manifest.get("metadata", {})}})


def _without_nulls(value: Any) -> Any:
    """Return a plain value without fields that are null, which removes them."""
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(one) for name, one in value.items() if one is not None}
