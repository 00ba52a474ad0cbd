# SPDX-License-Identifier: Apache-2.0
"""Calls one webhook about one write, and distinguishes the kinds of failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.admission.dynamic.versioned_attributes import VersionedAttributes
from kubeloop.apiserver.admission.dynamic.webhooks.hooks import WebhookAccessor
from kubeloop.apiserver.admission.dynamic.webhooks.review import (
    AdmissionResponse,
    InvalidReviewResponse,
    choose_review_version,
    encode_review_request,
    parse_review,
    verify_review_response,
)
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.webhook_client.client import WebhookHttpResponse
from kubeloop.apiserver.webhook_client.client_config import WebhookClients
from kubeloop.clock import Clock, new_uid

_DEFAULT_SECONDS: Final = 10
_LARGEST_CODE: Final = 999  # that the status line of a response has room for
_HEADERS: Final = (
    ("Content-Type", "application/json"),
    ("Accept", "application/json, */*"),
    ("User-Agent", "kube-apiserver-admission"),
)


class WebhookCallError(Exception):
    """Error for a call without usable response: the failure policy decides. The code is for metrics."""

    def __init__(self, name: str, reason: str, code: int) -> None:
        super().__init__(f"failed calling webhook {quote(name)}: {reason}")
        self.code = code


class WebhookRejection(Exception):
    """Rejection by the webhook, with the error for the client."""

    def __init__(self, error: errors.ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class WebhookCaller:
    """Client of admission webhooks."""

    def __init__(self, callees: WebhookClients, clock: Clock) -> None:
        self._clients = callees
        self._clock = clock

    async def call(
        self, hook: WebhookAccessor, subject: VersionedAttributes, resource: Resource, *, mutating: bool
    ) -> AdmissionResponse:
        """Call a webhook and return its response if it allows the write.

        Raises `WebhookCallError`, `Refused`, or an ApiError.
        """
        spec = hook.spec
        if subject.attributes.dry_run and spec.side_effects not in ("None", "NoneOnDryRun"):
            raise errors.bad_request(f"admission webhook {quote(hook.name)} does not support dry run")
        version = choose_review_version(spec.admission_review_versions or ())
        if not version:
            why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise WebhookCallError(hook.name, f"could not create admission objects: {why}", 400)
        uid = new_uid(self._clock)
        body = await encode_review_request(subject, resource, uid, version)
        answer = await self._post(hook, body)
        try:
            reply = verify_review_response(_parse_review(hook, answer), uid, version, mutating=mutating)
        except InvalidReviewResponse as error:
            raise WebhookCallError(hook.name, f"received invalid webhook response: {error}", 503) from None
        for key, value in reply.annotations:
            subject.attributes.annotations.setdefault(f"{hook.name}/{key}", value)
        for warning in reply.warnings:
            subject.attributes.warn(warning)
        if not reply.allowed:
            raise WebhookRejection(rejection_error(hook.name, reply.status))
        return reply

    async def _post(self, hook: WebhookAccessor, body: bytes) -> WebhookHttpResponse:
        seconds = hook.spec.timeout_seconds or _DEFAULT_SECONDS
        callee = self._clients.client_for(hook.spec.client_config)
        query = f"?timeout={seconds}s"
        try:
            headers = (*_HEADERS, *callee.credentials.headers())
            answer = await callee.http_client.request("POST", callee.path + query, headers, body, seconds)
        except (RemoteUnreachable, OSError, ValueError) as error:  # the latter for unusable credentials
            why = f'failed to call webhook: Post "{callee.url}{query}": {error}'
            raise WebhookCallError(hook.name, why, 503) from None
        if not 200 <= answer.status <= 206:
            text = answer.body.decode("utf-8", "replace").strip() if _is_text(answer) else "unknown"
            told = errors.generic_server_response(answer.status, text)
            raise WebhookCallError(hook.name, f"failed to call webhook: {told.message}", told.code)
        return answer


def _parse_review(hook: WebhookAccessor, answer: WebhookHttpResponse) -> Any:
    if not answer.body:
        kind = _header(answer, "content-type")
        why = f"0-length response with status code: {answer.status} and content type: {kind}"
        raise WebhookCallError(hook.name, f"failed to call webhook: {why}", 503)
    try:
        return parse_review(answer.body)
    except InvalidReviewResponse as error:
        raise WebhookCallError(hook.name, f"failed to call webhook: {error}", 503) from None


def _header(answer: WebhookHttpResponse, name: str) -> str:
    return next((value for key, value in answer.headers if key.lower() == name), "")


def _is_text(answer: WebhookHttpResponse) -> bool:
    kind = _header(answer, "content-type").lower()
    return not kind or kind.startswith("text/") or b"\x00" not in answer.body[:512]


def rejection_error(name: str, status: Mapping[str, Any] | None) -> errors.ApiError:
    """Return the client's error for a rejection: the webhook's name and its message."""
    given = status or {}
    message, reason = str(given.get("message") or ""), str(given.get("reason") or "")
    denied = f"admission webhook {quote(name)} denied the request"
    why = message or reason
    code = given.get("code")
    error = errors.ApiError.by_reason.get(reason, errors.ApiError)(
        f"{denied}: {why}" if why else f"{denied} without explanation",
        _details(given.get("details")),
        code=code if isinstance(code, int) and 400 <= code <= _LARGEST_CODE else 400,
    )
    error.reason = reason
    return error


def _details(given: Any) -> errors.StatusDetails | None:
    try:
        return None if given is None else msgspec.convert(given, errors.StatusDetails)
    except msgspec.ValidationError:
        return None
