"""Patches: parses and applies them, with upstream's error messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from kubeloop.api import errors
from kubeloop.api.kinds import Resource, definition_of
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.patch import (
    PatchError,
    PatchRejected,
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_merge_patch,
)
from kubeloop.api.patch.gotext import go_text
from kubeloop.apiserver.decoding import StrictError
from kubeloop.apiserver.decoding.from_map import conversion_error
from kubeloop.apiserver.decoding.produced import after_merge, after_operations
from kubeloop.apiserver.decoding.shapes import shape_of

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"


def parse_patch(body: bytes, media: str) -> Any:
    """Parse a patch; raises BadRequest."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise errors.bad_request("invalid JSON patch") from None


def apply_patch(media: str, live: dict[str, Any], patch: Any, resource: Resource) -> dict[str, Any]:
    """Return the document that results from applying a patch to the live document."""
    try:
        if media == JSON_PATCH:
            patched = apply_json_patch(live, patch)
        elif media == MERGE_PATCH:
            patched = apply_merge_patch(live, patch)
        else:
            patched = apply_strategic_merge_patch(live, patch, resource.node)
            # The kind and apiVersion in such a patch are ignored.
            patched = {**patched, "apiVersion": live["apiVersion"], "kind": live["kind"]}
    except PatchRejected:
        raise errors.generic_server_response(422) from None
    except PatchError as error:
        raise _error_of(error) from None
    if not isinstance(patched, dict):
        raise errors.generic_server_response(422)
    return patched


def _error_of(error: PatchError) -> errors.ApiError:
    if error.code == 400:
        return errors.bad_request(error.message)
    if error.code == 413:
        return errors.RequestEntityTooLarge(error.message)
    return errors.ApiError(error.message)


@contextmanager
def patch_decode_errors(media: str, patch: Any, patched: dict[str, Any]) -> Iterator[None]:
    """Turn errors in decoding the patched object into errors of the patch."""
    try:
        yield
    except errors.BadRequest as error:
        cause = error.__cause__
        why = str(cause) if cause is not None else error.message
        if media == JSON_PATCH:
            shown = _json(after_operations(patched, patch))
        elif media == MERGE_PATCH:
            shown = _json(after_merge(patched, patch))
        else:
            shown = go_text(patch)
            why = _converter_message(cause, patched) or why
        raise errors.invalid("", "", "", [field_path.invalid(FieldPath("patch"), shown, why)]) from None


def _json(document: Any) -> str:
    return msgspec.json.encode(document).decode()


def _converter_message(cause: BaseException | None, patched: dict[str, Any]) -> str:
    """Return upstream's message for a strategic merge patch, which differs as it is not decoded from JSON."""
    if isinstance(cause, StrictError):
        return str(StrictError(sorted(cause.found)))
    return conversion_error(patched, shape_of(definition_of(patched["apiVersion"], patched["kind"])))
