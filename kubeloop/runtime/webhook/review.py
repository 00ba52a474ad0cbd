# SPDX-License-Identifier: Apache-2.0
"""AdmissionReview protocol without the network. Pure but for the hook itself.

AdmissionReview ─▶ Review ─▶ hook: raises Denied, or returns the object as it should be ─▶ AdmissionReview with a patch
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

API_VERSION: Final = "admission.k8s.io/v1"


class InvalidReview(ValueError):
    """Invalid AdmissionReview; the message is for the sender."""


class AdmissionDenied(Exception):
    """Denial by a hook; the message is for the author of the request."""

    def __init__(self, message: str, code: int = 403, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class GroupVersionKind(msgspec.Struct, frozen=True):
    """Group, version and kind of an object."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(msgspec.Struct, frozen=True):
    """Group, version and resource of a request."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(msgspec.Struct, frozen=True):
    """User that made the request."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class Review(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Request of an AdmissionReview: user, operation and object."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    resource: GroupVersionResource = GroupVersionResource()
    sub_resource: str = ""
    operation: str = ""  # CREATE, UPDATE, DELETE or CONNECT
    namespace: str = ""
    name: str = ""
    user_info: UserInfo = UserInfo()
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    dry_run: bool = False
    warnings: list[str] = msgspec.field(default_factory=list)  # added by the hook; returned to the client


class _AdmissionReview(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Review | None = None


# Returns the object as it should be, or nothing if it is good as it is; raises `Denied`.
Hook = Callable[[Review], Awaitable[Mapping[str, Any] | None]]

_ASKED: Final = msgspec.json.Decoder(_AdmissionReview)
_SORTED: Final = msgspec.json.Encoder(order="deterministic")


def read_review(body: bytes) -> Review:
    """Decode the request of an AdmissionReview; raises `InvalidReview`."""
    try:
        asked = _ASKED.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidReview(f"not an AdmissionReview: {error}") from None
    if (asked.api_version, asked.kind) != (API_VERSION, "AdmissionReview") or asked.request is None:
        raise InvalidReview(f"not a {API_VERSION} AdmissionReview with a request")
    return asked.request


async def review_response(review: Review, hook: Hook) -> dict[str, Any]:
    """Return the AdmissionReview with the hook's decision. Other exceptions of the hook propagate to the server."""
    try:
        wanted = await hook(review)
    except AdmissionDenied as refusal:
        status = {"message": str(refusal), "code": refusal.code}
        verdict = {"allowed": False, "status": status | ({"reason": refusal.reason} if refusal.reason else {})}
    else:
        verdict = {"allowed": True, **_patch(review.object or {}, wanted)}
    if review.warnings:
        verdict["warnings"] = review.warnings
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": {"uid": review.uid, **verdict}}


def _patch(before: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    operations = [] if wanted is None else json_patch(before, wanted)
    if not operations:
        return {}
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(operations)).decode()}


def json_patch(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """Return JSON patch operations from one document to another: field by field, lists as a whole."""
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        # Compared by their encoding, since True == 1 in Python.
        same = _SORTED.encode(before) == _SORTED.encode(after)
        return [] if same else [{"op": "replace", "path": path, "value": after}]
    operations = [{"op": "remove", "path": f"{path}/{_token(key)}"} for key in before if key not in after]
    for key, value in after.items():
        where = f"{path}/{_token(key)}"
        if key not in before:
            operations.append({"op": "add", "path": where, "value": value})
        else:
            operations += json_patch(before[key], value, where)
    return operations


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
