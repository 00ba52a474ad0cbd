"""Validation of file paths inside volumes and on nodes."""

from __future__ import annotations

from kubeloop.api.meta.field_path import FieldErrors, Path, invalid


def no_backsteps(target: str, path: Path) -> FieldErrors:
    """Validate that a path has no `..` element."""
    if ".." in target and ".." in target.split("/"):
        return [invalid(path, target, "must not contain '..'")]
    return []


def local_descending(target: str, path: Path) -> FieldErrors:
    """Validate a relative path that never leaves its directory."""
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    return errors + no_backsteps(target, path)


def local_not_reserved(target: str, path: Path) -> FieldErrors:
    """Validate a relative path that does not begin with `..`, which volume writers reserve."""
    errors = local_descending(target, path)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors
