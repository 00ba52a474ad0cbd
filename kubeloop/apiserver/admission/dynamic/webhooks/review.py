# SPDX-License-Identifier: Apache-2.0
"""AdmissionReview: builds the request and verifies the response."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.admission.dynamic.expressions import request_document
from kubeloop.apiserver.admission.dynamic.versioned_attributes import Document, VersionedAttributes
from kubeloop.apiserver.decoding.go_json import GoJsonError, parse_json

_GROUP: Final = "admission.k8s.io"
_KIND: Final = "AdmissionReview"
_VERSIONS: Final = ("v1", "v1beta1")


class InvalidReviewResponse(Exception):
    """Error for an invalid response; the message is upstream's."""


class AdmissionResponse(NamedTuple):
    """Verified response of a webhook."""

    allowed: bool
    status: dict[str, Any] | None = None
    patch: bytes = b""
    patch_type: str = ""
    warnings: Sequence[str] = ()
    annotations: tuple[tuple[str, str], ...] = ()


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None
    audit_annotations: dict[str, str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: _Response | None = None


_REVIEW: Final = msgspec.json.Decoder(_Review)


def choose_review_version(accepted: Sequence[str]) -> str:
    """Return the first accepted AdmissionReview version that is supported; empty if there is none."""
    return next((version for version in accepted if version in _VERSIONS), "")


async def encode_review_request(subject: VersionedAttributes, resource: Resource, uid: str, version: str) -> bytes:
    """Return the encoded AdmissionReview request."""
    told: Document = {"uid": uid, **request_document(subject, resource)}
    told["object"] = await subject.document(resource)
    told["oldObject"] = await subject.old_document(resource)
    told.setdefault("options", None)
    return msgspec.json.encode({"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": told})


def parse_review(body: bytes) -> _Review:
    """Parse a response body; raises `InvalidReviewResponse`."""
    try:
        return _REVIEW.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidReviewResponse(f"json: cannot unmarshal response: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        parse_json(body)
    except GoJsonError as error:
        raise InvalidReviewResponse(f"couldn't get version/kind; json parse error: {error}") from None
    raise InvalidReviewResponse("couldn't get version/kind; json parse error: invalid JSON")


def verify_review_response(review: _Review, uid: str, version: str, *, mutating: bool) -> AdmissionResponse:
    """Verify a response; raises `InvalidReviewResponse`. As upstream, v1beta1 responses are checked less strictly."""
    response = review.response
    if response is None:
        raise InvalidReviewResponse("webhook response was absent")
    patch = _patch_bytes(response.patch)
    if version == "v1":
        _verify(review, response, uid, patch, mutating=mutating)
    patch_type = (response.patch_type or "") if version == "v1" else "JSONPatch" if patch else ""
    return AdmissionResponse(
        response.allowed,
        response.status,
        patch if mutating else b"",
        patch_type,
        response.warnings or (),
        tuple((response.audit_annotations or {}).items()),
    )


def _verify(review: _Review, response: _Response, uid: str, patch: bytes, *, mutating: bool) -> None:
    if response.uid != uid:
        raise InvalidReviewResponse(f"expected response.uid={quote(uid)}, got {quote(response.uid)}")
    if (review.api_version, review.kind) != (f"{_GROUP}/v1", _KIND):
        group, _, version = review.api_version.rpartition("/")
        got = f"{group}/{version}, Kind={review.kind}"
        raise InvalidReviewResponse(f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {got}")
    kind = response.patch_type
    if mutating:
        if patch and kind is None:
            raise InvalidReviewResponse("webhook returned response.patch but not response.patchType")
        if not patch and kind is not None:
            raise InvalidReviewResponse("webhook returned response.patchType but not response.patch")
        if kind == "":
            raise InvalidReviewResponse('webhook returned invalid response.patchType of ""')
    elif patch:
        raise InvalidReviewResponse("validating webhook may not return response.patch")
    elif kind is not None:
        raise InvalidReviewResponse("validating webhook may not return response.patchType")


def _patch_bytes(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        raise InvalidReviewResponse("illegal base64 data in response.patch") from None
