# SPDX-License-Identifier: Apache-2.0
"""Decoder of custom objects: prunes, defaults, and reports strict errors."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from typing import Any, Final

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.structural.depth import MAX_OBJECT_DEPTH, exceeds_depth
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.apiserver.apiextensions.resource import CustomResource
from kubeloop.apiserver.decoding.fast_check import NeedsSlowPath, count_known_keys, has_duplicate_keys
from kubeloop.apiserver.decoding.go_json import MAX_DEPTH, GoJsonError, Number, Pairs, parse_json
from kubeloop.apiserver.decoding.go_shapes import shape_of
from kubeloop.apiserver.decoding.results import (
    DecodedObject,
    StrictError,
    cannot_handle_error,
    unrecognized_error,
)
from kubeloop.apiserver.decoding.type_meta import TypeMeta, UnrecognizedError, parse_type_meta
from kubeloop.apiserver.decoding.unmarshal import UnmarshalError, unmarshal

_MAX_INTEGER: Final = 2**63
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_META: Final = msgspec.json.Decoder(ObjectMeta, dec_hook=codec.decode_hook)


def decode_body(body: bytes, content_type: str, resource: Resource, validation: str) -> DecodedObject:
    """Decode a request's body in JSON or YAML; custom kinds have no protobuf encoding."""
    media = content_type.partition(";")[0].strip().lower() or _JSON
    if media == _JSON:
        return _decode_json(body, resource, validation)
    if media != _YAML:
        raise errors.unsupported_media_type((_JSON, _YAML, _PROTOBUF))
    from kubeloop.apiserver.decoding.yaml_decoder import read_yaml  # imported on first use: most clients send JSON

    try:
        document, repeated = read_yaml(body)
    except ValueError as error:
        raise unrecognized_error(str(error), body, resource) from error
    return decode_document(_plain(document), body, resource, validation, repeated)


def _decode_json(body: bytes, resource: Resource, validation: str) -> DecodedObject:
    try:
        document = decode_text(body)
        if not has_duplicate_keys(body, document):
            return decode_document(document, body, resource, validation)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        pairs = parse_json(body)
    except GoJsonError as error:
        why = f"couldn't get version/kind; json parse error: {error}"
        raise unrecognized_error(why, body, resource) from error
    duplicates: list[str] = []
    _find_duplicates(pairs, "", duplicates)
    return decode_document(_plain(pairs), body, resource, validation, duplicates)


def decode_document(
    document: Any, body: bytes, resource: Resource, validation: str, repeated: Sequence[str] = ()
) -> DecodedObject:
    """Decode a parsed document, which becomes part of the object; `body` is for messages."""
    assert isinstance(resource, CustomResource)
    try:
        meta = parse_type_meta(document)
    except UnrecognizedError as error:
        raise unrecognized_error(str(error), body, resource) from error
    if not isinstance(document, dict) or not meta.kind:
        shown = body.decode(errors="replace")
        raise unrecognized_error(f"Object 'Kind' is missing in '{shown}'", body, resource)
    if meta.group_version != resource.group_version:
        raise errors.bad_request(
            f"the API version in the data ({meta.group_version}) does not match "
            f"the expected API version ({resource.group_version})"
        )
    if body.count(b"{") + body.count(b"[") > MAX_OBJECT_DEPTH and exceeds_depth(document, MAX_OBJECT_DEPTH):
        raise cannot_handle_error(meta, resource, MAX_DEPTH) from GoJsonError(MAX_DEPTH)
    return _decode(document, meta, resource, validation, repeated)


def _decode(
    document: dict[str, Any], meta: TypeMeta, resource: CustomResource, validation: str, repeated: Sequence[str]
) -> DecodedObject:
    object_meta, strange = _read_metadata(document.pop("metadata", None), meta, resource)
    if meta.kind != resource.kind:
        misnamed = field_path.invalid(FieldPath("kind"), meta.kind, f"must be {resource.kind}")
        raise errors.invalid(resource.group, meta.kind, object_meta.name, [misnamed])
    del document["kind"], document["apiVersion"]
    unknown = resource.rules.prune_and_default(document)
    obj = CustomResourceObject(resource.kind, resource.group_version, object_meta, resource.rules)
    obj.update(document)
    found = [*repeated, *(f'unknown field "{path}"' for path in (*strange, *unknown))]
    if found and validation == "Strict":
        strict = StrictError(found)
        raise cannot_handle_error(meta, resource, str(strict)) from strict
    return DecodedObject(obj, [] if validation == "Ignore" else found)


def _read_metadata(value: Any, meta: TypeMeta, resource: CustomResource) -> tuple[ObjectMeta, list[str]]:
    """Return the metadata, and its unknown fields."""
    if value is None:
        return ObjectMeta(), []
    try:
        count_known_keys(value, _OBJECT_META)
        return _META.decode(codec.encode(value)), []
    except (NeedsSlowPath, msgspec.ValidationError, AttributeError, TypeError, ValueError):
        pass
    try:
        plain, strict = unmarshal(value, shape_of(_OBJECT_META))
    except UnmarshalError as error:
        raise cannot_handle_error(meta, resource, str(error)) from error
    unknown = [text.split('"')[1] for text in strict if text.startswith("unknown field")]
    return _META.decode(codec.encode(plain)), [f"metadata.{name}" for name in unknown]


def _find_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, Pairs):
        seen: set[str] = set()
        for name, inner in value.items():
            at = f"{path}.{name}" if path else name
            if name in seen:
                found.append(f'duplicate field "{at}"')
            seen.add(name)
            _find_duplicates(inner, at, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _find_duplicates(item, f"{path}[{index}]", found)


def _integral(number: float) -> int | float:
    """Return a float without a fraction as an integer, as Go encodes it."""
    return int(number) if number.is_integer() and abs(number) < _MAX_INTEGER else number


def _read_float(text: str) -> int | float:
    number = float(text)
    if isinf(number):
        raise ValueError("Number out of range")
    return _integral(number)


_JSON_DECODER: Final = msgspec.json.Decoder(float_hook=_read_float)


def decode_text(text: bytes) -> Any:
    """Parse a JSON text with numbers as in custom objects."""
    return _JSON_DECODER.decode(text)


def _plain(value: Any) -> Any:
    """Return a deep copy: nodes shared by YAML aliases would be pruned by one place's schema for all."""
    if isinstance(value, Pairs | dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Number):
        return decode_text(str(value).encode())
    return _integral(value) if isinstance(value, float) else value
