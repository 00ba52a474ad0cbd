# SPDX-License-Identifier: Apache-2.0
"""Patches: parses and applies them, with upstream's error messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from kubeloop.apiserver.decoding import DecodedObject, StrictError, decode_document
from kubeloop.apiserver.decoding.go_shapes import shape_of
from kubeloop.apiserver.decoding.unstructured_converter import conversion_error, wrap_integers

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


def parse_patch(body: bytes) -> Any:
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
            patched = apply_strategic_merge_patch(live, patch, resource.schema_node)
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
def patch_decode_errors(media: str, patch: Any, result: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """Turn errors in decoding the patched object into errors of the patch; they show the complete `result`."""
    try:
        yield
    except errors.BadRequest as error:
        patched = result()
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


def decode_converted(document: dict[str, Any], resource: Resource, mode: str, patch: Any) -> DecodedObject:
    """Decode the result of a strategic merge patch as Go's converter does, in which integers overflow."""
    try:
        return decode_document(document, resource, mode, changed_by=patch)
    except errors.BadRequest:
        shape = shape_of(resource.definition)
        wrapped = document if conversion_error(document, shape) else wrap_integers(document, shape)
        if wrapped == document:
            raise
        return decode_document(wrapped, resource, mode, changed_by=patch)


def _json(document: Any) -> str:
    return msgspec.json.encode(document).decode()


def _converter_message(cause: BaseException | None, patched: dict[str, Any]) -> str:
    """Return upstream's message for a strategic merge patch, which differs as it is not decoded from JSON."""
    if isinstance(cause, StrictError):
        return str(StrictError(sorted(cause.found)))
    return conversion_error(patched, shape_of(definition_of(patched["apiVersion"], patched["kind"])))


def after_merge(patched: Any, patch: Any) -> Any:
    """Return the result of a merge patch with sorted keys in all objects that the patch names.

    Errors show it so, since upstream's patch library sorts the keys of objects that it parsed.
    """
    if isinstance(patched, list):
        return [_sorted(one) for one in patched]
    if not isinstance(patched, dict) or not isinstance(patch, dict):
        return patched
    return {key: after_merge(patched[key], patch[key]) if key in patch else patched[key] for key in sorted(patched)}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def after_operations(patched: Any, operations: Any) -> Any:
    """Return the result of a JSON patch with sorted keys in all objects on its operations' paths."""
    shown = {key: patched[key] for key in sorted(patched)}
    for operation in operations:
        for field in ("path", "from"):
            shown = _opened(shown, _steps(operation.get(field, "")))
    return shown


def _steps(pointer: str) -> list[str]:
    """Return the path to the parent of a JSON pointer's target."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:-1]]


def _opened(value: Any, steps: list[str]) -> Any:
    if isinstance(value, dict):
        value = {key: value[key] for key in sorted(value)}
        if steps and steps[0] in value:
            value[steps[0]] = _opened(value[steps[0]], steps[1:])
    elif isinstance(value, list) and steps and steps[0].isdigit() and int(steps[0]) < len(value):
        index = int(steps[0])
        value = [*value[:index], _opened(value[index], steps[1:]), *value[index + 1 :]]
    return value
