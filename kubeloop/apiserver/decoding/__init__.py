# SPDX-License-Identifier: Apache-2.0
"""Decoding of request bodies into defaulted objects, with upstream's strictness and messages.

    body ─ typed decode ─ ordinary? ─ yes ────────────────────────────▶ defaults ─▶ object
              │ fails        │ no                                         ▲
              └──────────────┴──▶ parse ─ kind fits? ─ unmarshal ─ typed ─┘ with warnings, or an error

The common body takes one typed decode and a quick check. Everything unusual (nulls, unknown or duplicate fields, YAML,
wrong types) takes a slower path that reports exact errors. A protobuf body is converted to a plain document first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.kinds import Resource, definition_of
from kubeloop.api.schema import definitions
from kubeloop.apiserver.decoding.fast_check import NeedsSlowPath, count_known_keys, count_written_keys
from kubeloop.apiserver.decoding.go_json import MAX_DEPTH, GoJsonError, parse_json
from kubeloop.apiserver.decoding.go_shapes import shape_of
from kubeloop.apiserver.decoding.results import (
    DecodedObject,
    StrictError,
    cannot_handle_error,
    unrecognized_error,
)
from kubeloop.apiserver.decoding.type_meta import (
    TypeMeta,
    UnrecognizedError,
    check_convertible,
    check_registered,
    parse_type_meta,
    with_defaults_of,
)
from kubeloop.apiserver.decoding.unmarshal import unmarshal
from kubeloop.apiserver.decoding.unstructured_converter import wrap_integers
from kubeloop.apiserver.decoding.value_limit import check_value_count

__all__ = [
    "DecodedObject",
    "StrictError",
    "check_media_type",
    "decode_document",
    "decode_object",
    "decode_parts",
    "decode_typed_body",
    "parse_yaml",
]

ACCEPTED: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
# Errors of decoding that lead to the slow path.
_FAILURES: Final = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


def decode_object(body: bytes, content_type: str, resource: Resource, validation: str) -> DecodedObject:
    """Decode a body of a resource's kind, with defaults; raises BadRequest or UnsupportedMediaType.

    The error's `__cause__` is the reason alone, without the description of the body.
    """
    if resource.is_custom:
        from kubeloop.apiserver.apiextensions import decoder as custom  # many servers have no CRDs

        return custom.decode_body(body, content_type, resource, validation)
    media = check_media_type(content_type)
    if media == ACCEPTED[1]:
        return _decode_yaml(body, resource, validation)
    if media == ACCEPTED[2]:
        return _decode_protobuf(body, resource, validation)
    obj = _ordinary_object(body, resource)
    if obj is not None:
        apply_defaults(obj)
        return DecodedObject(obj, [])
    try:
        document = parse_json(body)
    except GoJsonError as error:
        why = f"couldn't get version/kind; json parse error: {error}"
        raise unrecognized_error(why, body, resource) from error
    return _decode_slow_path(_Source(document, body), resource, validation)


def check_media_type(content_type: str) -> str:
    """Return the media type of a body of a built-in kind; raises UnsupportedMediaType."""
    if not content_type or content_type == ACCEPTED[0]:
        return ACCEPTED[0]
    media = content_type.partition(";")[0].strip().lower()
    if media not in ACCEPTED:
        raise errors.unsupported_media_type(ACCEPTED)
    return media


def decode_typed_body(body: bytes, resource: Resource) -> Any | None:
    """Decode a body that was encoded from the resource's struct class; None if it needs the full path."""
    if b"null" in body:  # in free-form JSON, null may mean absent
        return None
    obj = _typed(body, resource)
    if obj is not None:
        apply_defaults(obj)
    return obj


def decode_document(
    document: dict[str, Any], resource: Resource, validation: str, changed_by: Any | None = None
) -> DecodedObject:
    """Decode a document that a patch produced, in any version that can be converted.

    If the patch's own fields show what it changes, only those are checked for unknown fields.
    """
    try:
        body = msgspec.json.encode(document)
    except RecursionError:
        raise unrecognized_error(MAX_DEPTH, b"", resource) from GoJsonError(MAX_DEPTH)
    if resource.is_custom:
        from kubeloop.apiserver.apiextensions import decoder as custom

        return custom.decode_document(custom.decode_text(body), body, resource, validation)
    obj = _typed(body, resource)
    if obj is not None and (_has_only_known_fields(changed_by, resource) or _has_only_known_fields(document, resource)):
        apply_defaults(obj)
        return DecodedObject(obj, [])
    return _decode_slow_path(_Source(document, body, any_version=True), resource, validation)


def decode_parts(
    document: dict[str, Any], resource: Resource, changed_by: Any, others: Mapping[str, Any]
) -> Any | None:
    """Decode parts of an object and complete it with others; None if it needs the full path."""
    obj = _typed(msgspec.json.encode(document), resource)
    if obj is None or not (_has_only_known_fields(changed_by, resource) or _has_only_known_fields(document, resource)):
        return None
    for name, part in others.items():
        codec.force_setattr(obj, name, part)
    apply_defaults(obj)
    return obj


def _has_only_known_fields(document: Any, resource: Resource) -> bool:
    try:
        count_known_keys(document, resource.definition)
    except (NeedsSlowPath, AttributeError, TypeError):  # a patch need not have an object's shape
        return False
    return True


def _typed(body: bytes, resource: Resource) -> Any:
    """Decode the body as the resource's kind; None if it is another kind or not plainly decodable."""
    try:
        obj = codec.decode(body, resource.type)
    except _FAILURES:
        return None
    fits = obj.kind == resource.kind and obj.api_version == resource.group_version
    return obj if fits else None


def _ordinary_object(body: bytes, resource: Resource) -> Any:
    obj = _typed(body, resource)
    if obj is None:
        return None
    try:
        return (
            obj
            if count_known_keys(msgspec.json.decode(body), resource.definition) == count_written_keys(body)
            else None
        )
    except (NeedsSlowPath, *_FAILURES):
        return None


class _Source(NamedTuple):
    """Document to decode, with the results of parsing."""

    document: Any
    body: bytes
    duplicate_key_errors: Sequence[str] = ()  # the YAML parser's messages about duplicate keys
    any_version: bool = False


def parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Parse YAML (or JSON); return the document and warnings about duplicate keys. Raises ValueError."""
    parsed: tuple[Any, list[str]] = _yaml().parse_yaml(body)
    return parsed


def _yaml() -> Any:
    """Import the YAML module on first use: most clients send JSON, and start-up should be fast."""
    return import_module(f"{__name__}.yaml_decoder")


def _decode_yaml(body: bytes, resource: Resource, validation: str) -> DecodedObject:
    try:
        document, repeated = _yaml().read_yaml(body)
    except ValueError as error:
        raise unrecognized_error(str(error), body, resource) from error
    return _decode_slow_path(_Source(document, body, repeated), resource, validation)


def _decode_protobuf(body: bytes, resource: Resource, validation: str) -> DecodedObject:
    """Decode a protobuf body; it has no unknown or duplicate fields, as unknown numbers are skipped."""
    from kubeloop.api import protobuf  # imported on first use, as the YAML library

    try:
        envelope = protobuf.open_envelope(body)
        meta = with_defaults_of(parse_type_meta({"apiVersion": envelope.api_version, "kind": envelope.kind}), resource)
    except ValueError as error:
        raise unrecognized_error(str(error), body, resource) from error
    document: dict[str, Any] = {"kind": meta.kind, "apiVersion": meta.group_version}
    if protobuf.is_known(meta.group_version, meta.kind):
        try:
            document = protobuf.decode_object(meta.group_version, meta.kind, envelope.raw)
        except ValueError as error:
            raise cannot_handle_error(meta, resource, str(error)) from error
    try:
        return _decode_plain(document, body, resource, validation)
    except errors.BadRequest:
        wrapped = wrap_integers(document, shape_of(resource.definition)) if meta.kind == resource.kind else document
        if wrapped == document:
            raise
        return _decode_plain(wrapped, body, resource, validation)  # integers overflow as in Go


def _decode_plain(document: dict[str, Any], body: bytes, resource: Resource, validation: str) -> DecodedObject:
    """Decode a document without duplicate keys; the slow path reports its errors."""
    try:
        text = codec.encode(document)
        check_value_count(text)
        obj = _typed(text, resource)
    except RecursionError:
        obj = None
    if obj is None:
        return _decode_slow_path(_Source(document, body), resource, validation)
    apply_defaults(obj)
    return DecodedObject(obj, [])


def _decode_slow_path(source: _Source, resource: Resource, validation: str) -> DecodedObject:
    """Decode by the slow path, which reports exact errors."""
    try:
        meta = with_defaults_of(parse_type_meta(source.document), resource)
    except UnrecognizedError as error:
        raise unrecognized_error(str(error), source.body, resource) from error
    try:
        obj, strict = _slow_path_object(source, meta, resource, validation)
    except RecursionError:
        raise cannot_handle_error(meta, resource, MAX_DEPTH) from GoJsonError(MAX_DEPTH)
    except _FAILURES as error:
        raise cannot_handle_error(meta, resource, str(error)) from error
    if meta.group_version != resource.group_version and not source.any_version:
        raise errors.bad_request(
            f"the API version in the data ({meta.group_version}) does not match "
            f"the expected API version ({resource.group_version})"
        )
    apply_defaults(obj)
    return DecodedObject(obj, [] if validation == "Ignore" else [*source.duplicate_key_errors, *strict])


def _slow_path_object(source: _Source, meta: TypeMeta, resource: Resource, validation: str) -> tuple[Any, list[str]]:
    """Return the object and the strict errors; raises ValueError."""
    check_registered(meta, resource)
    plain, strict = _unmarshal(source.document, meta, resource)
    check_convertible(meta, resource)
    if validation == "Strict" and (strict or source.duplicate_key_errors):
        repeated = (
            ["\n  ".join(("yaml: unmarshal errors:", *source.duplicate_key_errors))]
            if source.duplicate_key_errors
            else []
        )
        raise StrictError([*repeated, *strict])
    plain["kind"], plain["apiVersion"] = resource.kind, resource.group_version
    return codec.decode(codec.encode(plain), resource.type), strict


def _unmarshal(document: Any, meta: TypeMeta, resource: Resource) -> tuple[dict[str, Any], list[str]]:
    """Unmarshal the document as the kind that it names, if that kind's fields are known."""
    definition = definition_of(meta.group_version, meta.kind)
    if definition not in definitions():
        definition = "" if (meta.kind, meta.group) != (resource.kind, resource.group) else resource.definition
    return unmarshal(document, shape_of(definition)) if definition else ({}, [])
