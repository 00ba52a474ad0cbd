# SPDX-License-Identifier: Apache-2.0
"""Tests of the Status of every API error."""

import pytest

from kubeloop.api import errors
from kubeloop.api.errors import ApiError, StatusCause, StatusDetails
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldPath


def test_a_status_has_upstreams_keys_in_upstreams_order() -> None:
    status = errors.not_found("apps", "deployments", "d").status()
    assert list(status) == ["kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"]
    assert status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'deployments.apps "d" not found',
        "reason": "NotFound",
        "details": {"name": "d", "group": "apps", "kind": "deployments"},
        "code": 404,
    }


@pytest.mark.parametrize(
    ("error", "code", "reason", "message"),
    [
        (errors.already_exists("", "pods", "p"), 409, "AlreadyExists", 'pods "p" already exists'),
        (
            errors.conflict("", "pods", "p"),
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods "p": the object has been modified; '
            "please apply your changes to the latest version and try again",
        ),
        (errors.forbidden("", "pods", "p", "no"), 403, "Forbidden", 'pods "p" is forbidden: no'),
        (errors.forbidden("", "pods", "", "no"), 403, "Forbidden", "pods is forbidden: no"),
        (errors.forbidden("", "", "", "no"), 403, "Forbidden", "forbidden: no"),
        (errors.unauthorized(), 401, "Unauthorized", "Unauthorized"),
        (errors.bad_request("what"), 400, "BadRequest", "what"),
        (
            errors.method_not_supported("g", "things", "create"),
            405,
            "MethodNotAllowed",
            'create is not supported on resources of kind "things.g"',
        ),
        (
            errors.not_acceptable(["a/b", "c/d"]),
            406,
            "NotAcceptable",
            "only the following media types are accepted: a/b, c/d",
        ),
        (
            errors.not_acceptable(["a/b"], converting_to="Table"),
            406,
            "NotAcceptable",
            "only the following media types are accepted when converting to Table: a/b",
        ),
        (
            errors.unsupported_media_type(["a/b"]),
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: a/b",
        ),
        (errors.expired(), 410, "Expired", "The resourceVersion for the provided list is too old."),
        (errors.too_old_resource_version(3, 7), 410, "Expired", "too old resource version: 3 (7)"),
        (errors.gone("away"), 410, "Gone", "away"),
        (errors.timeout("slow"), 504, "Timeout", "Timeout: slow"),
        (
            errors.server_timeout("", "pods", "get"),
            500,
            "ServerTimeout",
            "The get operation against pods could not be completed at this time, please try again.",
        ),
        (
            errors.request_entity_too_large("limit is 3"),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3",
        ),
        (errors.internal_error("oh"), 500, "InternalError", "Internal error occurred: oh"),
        (errors.service_unavailable("later"), 503, "ServiceUnavailable", "later"),
        (errors.generic_server_response(404), 404, "NotFound", "the server could not find the requested resource"),
        (
            errors.generic_server_response(405),
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        (
            errors.generic_server_response(502, "bad gateway"),
            502,
            "InternalError",
            'an error on the server ("bad gateway") has prevented the request from succeeding',
        ),
        (
            errors.generic_server_response(418),
            418,
            None,
            "the server responded with the status code 418 but did not return more information",
        ),
        (ApiError("raw"), 500, None, "raw"),
    ],
)
def test_each_error_has_code_reason_and_message(error: ApiError, code: int, reason: str | None, message: str) -> None:
    status = error.status()
    assert (status["code"], status.get("reason"), status["message"]) == (code, reason, message)
    assert str(error) == message


def test_details_match_upstream() -> None:
    assert "details" not in errors.bad_request("x").status()
    assert "details" not in errors.unauthorized().status()
    assert errors.generic_server_response(404).status()["details"] == {}
    assert errors.forbidden("", "", "", "no").status()["details"] == {}
    assert errors.internal_error("oh").status()["details"] == {"causes": [{"message": "oh"}]}


def test_an_invalid_object_lists_all_causes_and_each_message_once() -> None:
    missing = field_path.required(FieldPath("spec").child("selector"))
    error = errors.invalid("apps", "Deployment", "d", [missing, field_path.forbidden(FieldPath("spec"), "no"), missing])
    assert error.message == ('Deployment.apps "d" is invalid: [spec.selector: Required value, spec: Forbidden: no]')
    assert error.status()["details"] == {
        "name": "d",
        "group": "apps",
        "kind": "Deployment",
        "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.selector"},
            {"reason": "FieldValueForbidden", "message": "Forbidden: no", "field": "spec"},
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.selector"},
        ],
    }


def test_single_cause_has_no_brackets() -> None:
    error = errors.invalid("", "Pod", "", [field_path.required(FieldPath("spec"))])
    assert error.message == 'Pod "" is invalid: spec: Required value'
    assert "name" not in error.status()["details"]


def test_invalid_object_without_causes_has_a_short_message() -> None:
    assert errors.invalid("", "Pod", "p", []).message == 'Pod "p" is invalid'


def test_retry_after_is_a_detail_and_a_header() -> None:
    error = errors.too_many_requests("busy", 10, [StatusCause("DisruptionBudget", "wait")])
    assert error.headers == {"Retry-After": "10"}
    assert error.status()["details"] == {
        "causes": [{"reason": "DisruptionBudget", "message": "wait"}],
        "retryAfterSeconds": 10,
    }
    assert errors.bad_request("x").headers == {}


def test_future_version_is_a_timeout_with_its_cause() -> None:
    error = errors.too_large_resource_version(99, 5, retry_after_seconds=1)
    assert error.message == "Timeout: Too large resource version: 99, current: 5"
    assert error.causes == (StatusCause("ResourceVersionTooLarge", "Too large resource version"),)
    assert error.headers == {"Retry-After": "1"}


def test_an_expired_continuation_offers_an_inconsistent_token() -> None:
    error = errors.expired(errors.CONTINUE_INCONSISTENT, continue_token="abc")
    assert error.status()["metadata"] == {"continue": "abc"}


@pytest.mark.parametrize(
    "error",
    [
        errors.not_found("apps", "deployments", "d"),
        errors.generate_name_conflict("", "pods", "p-"),
        errors.expired(continue_token="t"),
        errors.generic_server_response(502, "x"),
        ApiError("raw"),
    ],
)
def test_a_received_status_becomes_the_same_error_again(error: ApiError) -> None:
    received = errors.from_status(error.status())
    assert type(received) is type(error)
    assert received.status() == error.status()


def test_error_can_be_rewritten_for_another_object() -> None:
    moved = errors.bad_request("x").with_details(StatusDetails(name="n"))
    assert moved.status()["details"] == {"name": "n"}
    assert moved.reason == "BadRequest"
