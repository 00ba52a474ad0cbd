# SPDX-License-Identifier: Apache-2.0
"""References to the requests of a ResourceClaim, used in constraints, configuration and results."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.resource_v1 import DeviceClaim
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid
from kubeloop.api.validation.devices.parts import duplicate_errors, validate_generated_items
from kubeloop.api.validation.shared.declarative import mark_generated
from kubeloop.api.validation.shared.scalars import validate_dns_label

_UNKNOWN: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_MAX_ITEMS: Final = 32


class RequestNames:
    """Names of a claim's requests, and of the subrequests of each."""

    def __init__(self, claim: DeviceClaim) -> None:
        self._known: set[str] = set()
        for request in claim.requests or ():
            self._known.add(request.name)
            self._known.update(f"{request.name}/{one.name}" for one in request.first_available)

    def validate(self, names: tuple[str, ...], path: FieldPath) -> FieldErrors:
        """Validate a list of unique references."""
        errors = validate_generated_items(names, self.validate_one, path, _MAX_ITEMS)
        return errors if len(names) > _MAX_ITEMS else errors + mark_generated(duplicate_errors(names, str, path, str))

    def validate_one(self, name: str, path: FieldPath) -> FieldErrors:
        """Validate a reference to a request or subrequest."""
        segments = name.split("/")
        if len(segments) > 2:
            return [invalid(path, name, _UNKNOWN)]
        errors: FieldErrors = []
        for segment in segments:
            errors += validate_dns_label(segment, path)
        return errors if name in self._known else [*errors, invalid(path, name, _UNKNOWN)]
