# SPDX-License-Identifier: Apache-2.0
"""Converts Python arguments to API options: selectors, versions, dry runs, deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api.generated.meta_v1 import DeleteOptions, Preconditions

Selector = str | Mapping[str, str]


def selector_text(selector: Selector) -> str:
    """Return a selector's text; a mapping means equality of all its entries."""
    if isinstance(selector, str):
        return selector
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


def list_options(labels: Selector = "", fields: Selector = "", **others: str | int | bool) -> dict[str, str]:
    """Return the query of a list or watch; empty and zero values are omitted."""
    options = {"labelSelector": selector_text(labels), "fieldSelector": selector_text(fields), **others}
    return {name: _text(value) for name, value in options.items() if value}


def watch_options(
    labels: Selector,
    fields: Selector,
    resource_version: str,
    bookmarks: bool,
    initial_events: bool | None,
    timeout_seconds: int,
) -> dict[str, str]:
    """Return the query of a watch."""
    options = list_options(
        labels,
        fields,
        resourceVersion=resource_version,
        allowWatchBookmarks=bookmarks,
        timeoutSeconds=timeout_seconds,
    )
    if initial_events is not None:
        options["sendInitialEvents"] = "true" if initial_events else "false"
        options["resourceVersionMatch"] = "NotOlderThan"
    return options


def write_options(
    manager: str = "", dry_run: bool = False, validation: str = "", force: bool = False
) -> dict[str, str]:
    """Return the query of a create, update, patch or apply."""
    if not (manager or dry_run or validation or force):  # the common case
        return {}
    options = {
        "fieldManager": manager,
        "dryRun": "All" if dry_run else "",
        "fieldValidation": validation,
        "force": "true" if force else "",
    }
    return {name: value for name, value in options.items() if value}


def delete_options(
    propagation: str = "",
    grace_seconds: int | None = None,
    preconditions: Preconditions | None = None,
    dry_run: bool = False,
) -> DeleteOptions | None:
    """Return the DeleteOptions; None if all options are default."""
    options = DeleteOptions(
        kind="DeleteOptions",
        api_version="v1",
        propagation_policy=propagation or None,
        grace_period_seconds=grace_seconds,
        preconditions=preconditions,
        dry_run=("All",) if dry_run else (),
    )
    return None if options == DeleteOptions(kind="DeleteOptions", api_version="v1") else options


def log_options(
    container: str,
    follow: bool,
    previous: bool,
    timestamps: bool,
    tail_lines: int | None,
    since_seconds: int | None,
    limit_bytes: int | None,
) -> dict[str, str]:
    """Return the query of a log request."""
    options: dict[str, Any] = {
        "container": container or None,
        "follow": follow or None,
        "previous": previous or None,
        "timestamps": timestamps or None,
        "tailLines": tail_lines,
        "sinceSeconds": since_seconds,
        "limitBytes": limit_bytes,
    }
    return {name: _text(value) for name, value in options.items() if value is not None}


def _text(value: str | int | bool) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
