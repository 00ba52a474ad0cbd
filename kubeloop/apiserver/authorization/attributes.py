# SPDX-License-Identifier: Apache-2.0
"""Attributes of a request for authorization, and the Forbidden error with upstream's message."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple
from urllib.parse import unquote

from kubeloop.api import errors
from kubeloop.api.field_selectors import FieldSelector, parse_field_selector
from kubeloop.api.meta.field_path import quote
from kubeloop.api.meta.name_rules import check_path_segment_name
from kubeloop.api.selectors.operators import SelectorError
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Target
from kubeloop.http import Request

_OBJECT_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"get": "list", "delete": "deletecollection"}
# A selector that names one object or node is shorter.
_LONGEST_SELECTOR = 4 << 10
_WITH_SELECTORS = ("list", "watch", "deletecollection")
# Escapes HTML, so that a browser does not render the message.
_NO_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class AuthorizationAttributes(NamedTuple):
    """Attributes of a request for a resource, or for a non-resource path."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None  # set for non-resource requests
    field_selector: FieldSelector | None = None
    label_selector: str = ""


class AuthorizationDecision(NamedTuple):
    """Decision of an authorizer, with a reason for people.

    If it neither allows nor denies, the next authorizer is asked. The error says why the decision may be wrong.
    """

    allowed: bool
    reason: str = ""
    denied: bool = False
    error: str = ""


NO_OPINION = AuthorizationDecision(False)
# Awaitable where an authorizer has to ask another server.
EventualDecision = AuthorizationDecision | Awaitable[AuthorizationDecision]


class AuthorizationFailed(errors.InternalError):
    """Error for a request that was not allowed because an authorizer failed."""


def attributes_of_path(user: User, method: str, path: str) -> AuthorizationAttributes:
    """Return the attributes of a non-resource request."""
    return AuthorizationAttributes(user, method.lower(), path=unquote(path))


def attributes_of_target(user: User, method: str, target: Target, verb: str, query: Query) -> AuthorizationAttributes:
    """Return the attributes of a request for a served resource; the verb is empty for an unsupported method."""
    resource, name, namespace = target.resource, target.name, target.namespace
    if not verb:
        verb = _OBJECT_VERBS.get(method, "")
        if not name:
            verb = _COLLECTION_VERBS.get(verb, verb)
    fields, labels = None, ""
    if verb in _WITH_SELECTORS and not target.watch_path and query:
        fields, labels = _selector(query.text("fieldSelector")), query.text("labelSelector")
        if not name and fields is not None:
            name = _name_in(fields) if verb != "deletecollection" else ""
    if resource.plural == "namespaces" and not resource.group and target.name:
        namespace = target.name  # permissions in a namespace include the namespace itself
    return AuthorizationAttributes(
        user,
        verb,
        resource.group,
        resource.version,
        resource.plural,
        target.subresource,
        namespace,
        name,
        None,
        fields,
        labels,
    )


def attributes_of_unserved(user: User, method: str, path: str, query: Query) -> AuthorizationAttributes:
    """Return the attributes of a request for a resource that is not served, from the path alone."""
    parts = unquote(path).strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    verb = _OBJECT_VERBS.get(method, "")
    if rest[0] == "watch" and len(rest) > 1:
        verb, rest = "watch", rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if not name:
        verb = "watch" if verb == "get" and query.flag("watch") else _COLLECTION_VERBS.get(verb, verb)
    return AuthorizationAttributes(user, verb, group, version, resource, subresource, namespace, name)


def enforce(asked: AuthorizationAttributes, decision: AuthorizationDecision) -> None:
    """Raise Forbidden unless the decision allows, or AuthorizationFailed if an authorizer failed."""
    if decision.allowed:
        return
    if decision.error:
        raise AuthorizationFailed(decision.error)
    raise forbidden_error(asked, decision.reason)


def authorization_failure_text(request: Request, error: AuthorizationFailed) -> bytes:
    """Return the body of the response to a request whose authorization failed."""
    uri = f"{request.path}?{request.query}" if request.query else request.path
    return f"Internal Server Error: {quote(uri)}: {error}\n".translate(_NO_HTML).encode()


def forbidden_error(asked: AuthorizationAttributes, reason: str) -> errors.Forbidden:
    """Return the Forbidden error for a request that no authorizer allows."""
    told = _sentence(asked).translate(_NO_HTML)
    why = f"{told}: {reason}" if reason else told
    return errors.forbidden(asked.group, asked.resource, asked.name, why)


def _sentence(asked: AuthorizationAttributes) -> str:
    who = f"User {quote(asked.user.name)} cannot {asked.verb}"
    if asked.path is not None:
        return f"{who} path {quote(asked.path)}"
    what = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    where = f"in the namespace {quote(asked.namespace)}" if asked.namespace else "at the cluster scope"
    return f"{who} resource {quote(what)} in API group {quote(asked.group)} {where}"


def _selector(text: str) -> FieldSelector | None:
    """Parse a field selector; an invalid or long one counts as none here, and the handler parses it in full.

    Without a selector, fewer requests are authorized, never more.
    """
    try:
        return parse_field_selector(text) if text and len(text) <= _LONGEST_SELECTOR else None
    except SelectorError:
        return None


def _name_in(fields: FieldSelector) -> str:
    name = fields.requires_exact_match("metadata.name") or ""
    return "" if check_path_segment_name(name) else name
