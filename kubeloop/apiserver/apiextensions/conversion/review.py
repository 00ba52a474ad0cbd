# SPDX-License-Identifier: Apache-2.0
"""ConversionReview: builds the request and verifies the response. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.field_path import FieldPath, aggregate, quote
from kubeloop.api.selectors import validate_labels
from kubeloop.api.structural.model import META_FIELDS

Document = dict[str, Any]
_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_VERSIONS: Final = ("v1", "v1beta1")
_SORTED: Final = msgspec.json.Encoder(order="deterministic")
_SAME: Final = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))
_CHANGEABLE: Final = ("labels", "annotations")
_META: Final = msgspec.json.Decoder(ObjectMeta, dec_hook=codec.decode_hook)


class ConversionError(Exception):
    """Error for an invalid response; the message is upstream's, without the prefix that names the webhook."""


def choose_conversion_version(accepted: Sequence[str]) -> str:
    """Return the first accepted ConversionReview version that is supported; raises `ConversionError`."""
    for version in accepted:
        if version in _VERSIONS:
            return version
    raise ConversionError("no supported conversion review versions")


def encode_conversion_request(objects: Sequence[bytes], wanted: str, uid: str, version: str) -> bytes:
    """Return the encoded ConversionReview request."""
    request = {"uid": uid, "desiredAPIVersion": wanted, "objects": [msgspec.Raw(one) for one in objects]}
    return msgspec.json.encode({"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request})


def parse_conversion_response(body: bytes, uid: str, version: str) -> list[Any]:
    """Return the converted objects of a response, not verified individually; raises `ConversionError`."""
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConversionError("failed: couldn't get version/kind; json parse error: invalid JSON") from None
    if not isinstance(review, dict):
        raise ConversionError("failed: couldn't get version/kind; json parse error: not an object")
    if version == "v1" and (review.get("apiVersion"), review.get("kind")) != (f"{_GROUP}/v1", _KIND):
        got = _shown(str(review.get("apiVersion") or ""), str(review.get("kind") or ""))
        raise ConversionError(f"failed: expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {got}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise ConversionError("failed: no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise ConversionError(
            f"failed: expected response.uid={quote(uid)}, got {quote(str(response.get('uid') or ''))}"
        )
    result = response.get("result")
    if not isinstance(result, dict):
        result = {}
    if result.get("status") != "Success":
        why = result.get("message") or f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        raise ConversionError(f"failed: {why}")
    converted = response.get("convertedObjects") or []
    if not isinstance(converted, list):
        raise ConversionError("failed: couldn't get version/kind; json parse error: convertedObjects is no list")
    return converted


def verify_converted_object(original: Document, converted: Any, wanted: str) -> Document:
    """Verify and return a converted object: only labels and annotations of its metadata may change."""
    if not isinstance(converted, dict):
        raise ConversionError("Object 'Kind' is missing")
    if converted.get("apiVersion") != wanted:
        got = converted.get("apiVersion") or "/"
        raise ConversionError(f"invalid groupVersion (expected {wanted}, received {got})")
    if converted.get("kind") != original["kind"]:
        raise ConversionError(f"invalid kind (expected {original['kind']}, received {converted.get('kind') or ''})")
    before, after = original["metadata"], converted.get("metadata")
    if after is None:
        raise ConversionError("missing metadata in converted object")
    if not isinstance(after, dict):
        raise ConversionError(f"invalid metadata of type {type(after).__name__} in converted object")
    for field, told in _SAME:
        if (after.get(field) or "") != (before.get(field) or ""):
            raise ConversionError(f"must have the same {told}: {before.get(field) or ''} != {after.get(field) or ''}")
    kept = {name: value for name, value in before.items() if name not in _CHANGEABLE}
    for field in _CHANGEABLE:
        if after.get(field):
            kept[field] = _texts(field, after[field], before.get(field) or {})
    return {**converted, "metadata": kept}


def _texts(field: str, found: Any, before: Document) -> Document:
    if not isinstance(found, dict):
        raise ConversionError(f"invalid metadata.{field} of type {type(found).__name__} in converted object")
    for key, value in found.items():
        if not isinstance(value, str):
            said = f"must be a string, but is {type(value).__name__} in converted object"
            raise ConversionError(f"metadata.{field}[{key}] {said}")
    if (
        field == "labels"
        and found != before
        and (wrong := validate_labels(found, FieldPath("metadata").child("labels")))
    ):
        raise ConversionError(f"invalid metadata.labels: {aggregate(one.message() for one in wrong)}")
    return found


def encode_stored_form(document: Document) -> bytes:
    """Encode a document as stored: equal for equal objects, beginning with kind, apiVersion and metadata."""
    head = codec.encode({"kind": document["kind"], "apiVersion": document["apiVersion"]})
    metadata = codec.encode(_META.decode(codec.encode(document["metadata"])))
    rest = _SORTED.encode({name: value for name, value in document.items() if name not in META_FIELDS})
    return b"".join((head[:-1], b',"metadata":', metadata, b"," if len(rest) > 2 else b"", rest[1:]))


def version_in(value: bytes) -> str:
    """Return the apiVersion of stored bytes, without decoding them."""
    start = value.index(b'"apiVersion":"') + len(b'"apiVersion":"')
    return value[start : value.index(b'"', start)].decode()


def _shown(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"
