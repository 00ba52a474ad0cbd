# SPDX-License-Identifier: Apache-2.0
"""Exceptions that carry the Status object of a failed API request.

Every error of the API is an `ApiError`. The subclasses exist to be caught; the functions below build them with
upstream's wording. A resource is identified by group and plural (`"apps", "deployments"`), a kind by group and kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from kubeloop.api.meta.field_path import FieldError, aggregate, quote

MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"
LIST_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
WATCH_TOO_OLD: Final = "The resourceVersion for the provided watch is too old."
CONTINUE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)
CONTINUE_INCONSISTENT: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class StatusCause(msgspec.Struct, frozen=True, omit_defaults=True):
    """StatusCause: one entry of a Status' details.causes."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """StatusDetails; `kind` holds a plural or a kind, as upstream does."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the details as JSON values: only fields that are set, with lists for tuples."""
        details: dict[str, Any] = msgspec.to_builtins(self)
        if self.causes:
            details["causes"] = list(details["causes"])
        return details


class ApiError(Exception):
    """Base of all API errors; an error without a reason has code 500, as upstream."""

    code: int = 500
    reason: str = ""
    by_reason: ClassVar[dict[str, type[ApiError]]] = {}

    def __init__(
        self, message: str, details: StatusDetails | None = None, *, code: int | None = None, continue_token: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.continue_token = continue_token
        if code is not None:
            self.code = code

    def __init_subclass__(cls) -> None:
        if "reason" in cls.__dict__:
            ApiError.by_reason[cls.reason] = cls

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """Causes in the Status' details; empty without details."""
        return self.details.causes if self.details is not None else ()

    @property
    def is_namespace_terminating(self) -> bool:
        """True if the server rejected the request because the namespace is terminating; a retry is useless."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def retry_after_seconds(self) -> int:
        """Seconds after which the client may retry; 0 if the server gave none."""
        return self.details.retry_after_seconds if self.details is not None else 0

    @property
    def headers(self) -> dict[str, str]:
        """Response headers that belong to this error."""
        return {"Retry-After": str(self.retry_after_seconds)} if self.retry_after_seconds > 0 else {}

    def status(self) -> dict[str, Any]:
        """Return the Status object, with upstream's order and presence of keys."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
        }
        if self.message:
            status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details.to_dict()
        status["code"] = self.code
        return status

    def with_details(self, details: StatusDetails) -> ApiError:
        """Return a copy of this error with other details."""
        return type(self)(self.message, details, code=self.code, continue_token=self.continue_token)


class BadRequest(ApiError):
    """Status 400: the request is malformed."""

    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    """Status 401: the client is not authenticated."""

    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    """Status 403: the client is not permitted to do this."""

    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    """Status 404: the resource or object does not exist."""

    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    """Status 405: the resource does not support the action."""

    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    """Status 406: no media type that the client accepts can be produced."""

    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    """Status 409: an object of this name exists."""

    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """Status 409: the object was modified, or fields are owned by other managers."""

    code, reason = 409, "Conflict"


class Gone(ApiError):
    """Status 410: the item is no longer available."""

    code, reason = 410, "Gone"


class Expired(ApiError):
    """Status 410: a resourceVersion or continue token is too old to be served."""

    code, reason = 410, "Expired"


class RequestEntityTooLarge(ApiError):
    """Status 413: the request body exceeds the limit."""

    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    """Status 415: the request body has an unsupported content type."""

    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """Status 422: the object failed validation."""

    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    """Status 429: the client should retry later."""

    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    """Status 500: an internal error occurred."""

    code, reason = 500, "InternalError"


class ServerTimeout(ApiError):
    """Status 500: the operation did not happen; the client should retry."""

    code, reason = 500, "ServerTimeout"


class StoreReadError(ApiError):
    """Status 500: an object could not be read from the store."""

    code, reason = 500, "StoreReadError"


class ServiceUnavailable(ApiError):
    """Status 503: the service is unavailable."""

    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    """Status 504: the operation took too long; it may still happen."""

    code, reason = 504, "Timeout"


def from_status(status: Mapping[str, Any]) -> ApiError:
    """Build the error that a received Status object represents."""
    details = status.get("details")
    cls = ApiError.by_reason.get(status.get("reason", ""), ApiError)
    return cls(
        status.get("message", ""),
        None if details is None else msgspec.convert(details, StatusDetails),
        code=status.get("code") or None,
        continue_token=(status.get("metadata") or {}).get("continue", ""),
    )


def qualified_name(group: str, name: str) -> str:
    """Return a plural or kind with its group: `deployments.apps`, `pods`."""
    return f"{name}.{group}" if group else name


def _about(
    group: str, kind: str, name: str = "", causes: Iterable[StatusCause] = (), retry_after_seconds: int = 0
) -> StatusDetails:
    return StatusDetails(name, group, kind, causes=tuple(causes), retry_after_seconds=retry_after_seconds)


def not_found(group: str, resource: str, name: str) -> NotFound:
    """Build the error for an object that does not exist."""
    return NotFound(f"{qualified_name(group, resource)} {quote(name)} not found", _about(group, resource, name))


def already_exists(group: str, resource: str, name: str) -> AlreadyExists:
    """Build the error for creating an object whose name is taken."""
    return AlreadyExists(
        f"{qualified_name(group, resource)} {quote(name)} already exists", _about(group, resource, name)
    )


def generate_name_conflict(group: str, resource: str, name: str, retry_after_seconds: int = 1) -> AlreadyExists:
    """Build the error for a generateName whose generated names were all taken."""
    message = (
        f"{qualified_name(group, resource)} {quote(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    return AlreadyExists(message, _about(group, resource, name, retry_after_seconds=retry_after_seconds))


def conflict(group: str, resource: str, name: str, why: str = MODIFIED) -> Conflict:
    """Build the error for a write that is based on an outdated object."""
    message = f"Operation cannot be fulfilled on {qualified_name(group, resource)} {quote(name)}: {why}"
    return Conflict(message, _about(group, resource, name))


def apply_conflict(message: str, causes: Iterable[StatusCause]) -> Conflict:
    """Build the error for an apply that conflicts with other field managers."""
    return Conflict(message, StatusDetails(causes=tuple(causes)))


def forbidden(group: str, resource: str, name: str, why: str, causes: Iterable[StatusCause] = ()) -> Forbidden:
    """Build the error for a denied request; without a resource (a path such as /metrics) the message names none."""
    if not (group or resource):
        subject = ""
    elif not name:
        subject = f"{qualified_name(group, resource)} is "
    else:
        subject = f"{qualified_name(group, resource)} {quote(name)} is "
    return Forbidden(f"{subject}forbidden: {why}", _about(group, resource, name, causes))


def unauthorized(message: str = "Unauthorized") -> Unauthorized:
    """Build the error for a client that is not authenticated."""
    return Unauthorized(message)


def bad_request(message: str) -> BadRequest:
    """Build the error for a malformed request."""
    return BadRequest(message)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> Invalid:
    """Build the error for an object that fails validation.

    The causes list every error, the message contains each text once.
    """
    causes = tuple(StatusCause(error.type.value, error.body(), error.field) for error in errors)
    message = f"{qualified_name(group, kind)} {quote(name)} is invalid"
    if errors:
        message = f"{message}: {aggregate(error.message() for error in errors)}"
    return Invalid(message, _about(group, kind, name, causes))


def method_not_supported(group: str, resource: str, action: str) -> MethodNotAllowed:
    """Build the error for an action that a resource does not support."""
    message = f"{action} is not supported on resources of kind {quote(qualified_name(group, resource))}"
    return MethodNotAllowed(message, _about(group, resource))


def not_acceptable(accepted: Iterable[str], converting_to: str = "") -> NotAcceptable:
    """Build the error for a request without a common media type.

    `converting_to` names the requested form (such as Table).
    """
    when = f" when converting to {converting_to}" if converting_to else ""
    return NotAcceptable(f"only the following media types are accepted{when}: {', '.join(accepted)}")


def unsupported_media_type(accepted: Iterable[str]) -> UnsupportedMediaType:
    """Build the error for a request body of an unsupported media type."""
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    )


def gone(message: str) -> Gone:
    """Build the error for an item that is no longer available."""
    return Gone(message)


def expired(message: str = LIST_TOO_OLD, continue_token: str = "") -> Expired:
    """Build the error for a list or continue token that is too old."""
    return Expired(message, continue_token=continue_token)


def too_old_resource_version(requested: int, oldest: int) -> Expired:
    """Build the error for a watch from a resourceVersion that was compacted."""
    return Expired(f"too old resource version: {requested} ({oldest})")


def timeout(message: str, retry_after_seconds: int = 0) -> Timeout:
    """Build the error for an operation that took too long."""
    return Timeout(f"Timeout: {message}", StatusDetails(retry_after_seconds=retry_after_seconds))


def too_large_resource_version(requested: int, current: int, retry_after_seconds: int = 0) -> Timeout:
    """Build the error for a resourceVersion that the server has not reached."""
    cause = StatusCause("ResourceVersionTooLarge", "Too large resource version")
    return Timeout(
        f"Timeout: Too large resource version: {requested}, current: {current}",
        StatusDetails(causes=(cause,), retry_after_seconds=retry_after_seconds),
    )


def server_timeout(group: str, resource: str, operation: str, retry_after_seconds: int = 0) -> ServerTimeout:
    """Build the error for an operation that could not be completed now."""
    message = (
        f"The {operation} operation against {qualified_name(group, resource)} "
        "could not be completed at this time, please try again."
    )
    return ServerTimeout(message, _about(group, resource, operation, retry_after_seconds=retry_after_seconds))


def too_many_requests(
    message: str, retry_after_seconds: int = 0, causes: Iterable[StatusCause] = ()
) -> TooManyRequests:
    """Build the error for a request that was throttled or must be retried."""
    return TooManyRequests(message, StatusDetails(causes=tuple(causes), retry_after_seconds=retry_after_seconds))


def request_entity_too_large(message: str) -> RequestEntityTooLarge:
    """Build the error for a request body that exceeds the limit."""
    return RequestEntityTooLarge(f"Request entity too large: {message}")


def internal_error(message: str) -> InternalError:
    """Build the error for an internal failure."""
    return InternalError(f"Internal error occurred: {message}", StatusDetails(causes=(StatusCause(message=message),)))


def service_unavailable(message: str) -> ServiceUnavailable:
    """Build the error for an unavailable service."""
    return ServiceUnavailable(message)


_GENERIC: Final[Mapping[int, tuple[type[ApiError], str]]] = {
    400: (BadRequest, "the server rejected our request for an unknown reason"),
    401: (Unauthorized, "the server has asked for the client to provide credentials"),
    404: (NotFound, "the server could not find the requested resource"),
    405: (MethodNotAllowed, "the server does not allow this method on the requested resource"),
    406: (NotAcceptable, "the server was unable to respond with a content type that the client supports"),
    409: (Conflict, "the server reported a conflict"),
    422: (Invalid, "the server rejected our request due to an error in our request"),
    429: (TooManyRequests, "the server has received too many requests and has asked us to try again later"),
    503: (ServiceUnavailable, "the server is currently unable to handle the request"),
    504: (
        Timeout,
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}


def generic_server_response(code: int, server_message: str = "", retry_after_seconds: int = 0) -> ApiError:
    """Build an error that is known by its HTTP code alone and concerns no particular object."""
    details = StatusDetails(retry_after_seconds=retry_after_seconds)
    if code == 403:
        return Forbidden(server_message, details)
    if code == 415:
        return UnsupportedMediaType(server_message, details)
    if code == 406 and server_message:
        return NotAcceptable(server_message, details)
    if code in _GENERIC:
        cls, message = _GENERIC[code]
        return cls(message, details)
    if code >= 500:
        message = f"an error on the server ({quote(server_message)}) has prevented the request from succeeding"
        return InternalError(message, details, code=code)
    message = f"the server responded with the status code {code} but did not return more information"
    return ApiError(message, details, code=code)
