# SPDX-License-Identifier: Apache-2.0
"""Options of writes: dry run, field manager and field validation, with upstream's validation."""

from __future__ import annotations

from kubeloop.api import errors
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldError, FieldPath
from kubeloop.apiserver.request.query import Query

_MODES = ("", "Ignore", "Strict", "Warn")
_MAX_MANAGER = 128


def validate_write_options(query: Query, kind: str) -> None:
    """Validate create, update and patch options; `kind` is the name of the options type."""
    if not query:
        return
    found = _common_errors(query)
    if found:
        raise errors.invalid("meta.k8s.io", kind, "", found)


def validate_patch_options(query: Query, is_apply: bool) -> None:
    """Validate patch options; apply requires a field manager, other patches forbid `force`."""
    if not is_apply and not query:
        return
    found: list[FieldError] = []
    if is_apply:
        if not query.text("fieldManager"):
            found.append(field_path.required(FieldPath("fieldManager"), "is required for apply patch"))
    elif "force" in query:
        found.append(field_path.forbidden(FieldPath("force"), "may not be specified for non-apply patch"))
    found += _common_errors(query)
    if found:
        raise errors.invalid("meta.k8s.io", "PatchOptions", "", found)


def field_validation(query: Query) -> str:
    """Return the fieldValidation option; the default is Warn."""
    return query.text("fieldValidation") or "Warn"


def _common_errors(query: Query) -> list[FieldError]:
    found: list[FieldError] = []
    manager = query.text("fieldManager")
    if len(manager.encode()) > _MAX_MANAGER:
        found.append(field_path.too_long(FieldPath("fieldManager"), _MAX_MANAGER))
    for index, char in enumerate(manager):
        if not char.isprintable():
            detail = f"invalid character U+{ord(char):04X} (at position {index})"
            found.append(field_path.invalid(FieldPath("fieldManager"), manager, detail))
    found += dry_run_errors(query)
    mode = query.text("fieldValidation")
    if mode not in _MODES:
        found.append(field_path.not_supported(FieldPath("fieldValidation"), mode, _MODES))
    return found


def dry_run_errors(query: Query) -> list[FieldError]:
    """Return the field errors of the dryRun option; only `All` is valid."""
    values = query.values("dryRun") if "dryRun" in query else ()
    if any(value != "All" for value in values):
        return [field_path.not_supported(FieldPath("dryRun"), values, ("All",))]
    return []
