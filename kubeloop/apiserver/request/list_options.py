# SPDX-License-Identifier: Apache-2.0
"""Options of list and watch requests: versions, pages and selectors, with upstream's validation."""

from __future__ import annotations

import base64
import re

import msgspec

from kubeloop.api import errors
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldError, FieldPath
from kubeloop.api.meta.object_meta import parse_resource_version
from kubeloop.apiserver.decoding.go_json import Pairs, parse_json
from kubeloop.apiserver.decoding.unmarshal import kind_of
from kubeloop.apiserver.registry.selector_fields import ObjectSelector, SelectorFieldCache
from kubeloop.apiserver.request.query import Query

_MATCH = FieldPath("resourceVersionMatch")
_INITIAL = FieldPath("sendInitialEvents")
# Selectors with more characters than this take more than ten milliseconds to parse.
_LONG_SELECTOR = 16 << 10


_TOKEN_VERSION = "meta.k8s.io/v1"
_NOT_BASE64 = re.compile("[^A-Za-z0-9_-]")


class _ContinueToken(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


_TOKEN = msgspec.json.Decoder(_ContinueToken)


class ListOptions(msgspec.Struct, frozen=True):
    """Validated options of one list or watch."""

    selector: ObjectSelector
    resource_version: str
    match: str
    limit: int
    continue_token: str
    timeout_seconds: int | None
    bookmarks: bool
    initial_events: bool | None

    def revision(self) -> int:
        """Return the requested resourceVersion as a number; raises ValueError with Go's message."""
        return parse_revision(self.resource_version) if self.resource_version else 0


def has_long_selector(query: Query) -> bool:
    """Return True if parsing a query's selectors would delay other requests."""
    return bool(query) and len(query.text("labelSelector")) + len(query.text("fieldSelector")) > _LONG_SELECTOR


def parse_list_options(query: Query, memory: SelectorFieldCache, watch: bool) -> ListOptions:
    """Parse and validate the query of a list or watch."""
    if not query:
        return ListOptions(memory.everything, "", "", 0, "", None, False, None)
    # Errors of numbers precede those of selectors.
    limit, timeout_seconds = query.integer("limit"), query.integer("timeoutSeconds")
    options = ListOptions(
        memory.parse(query.text("labelSelector"), query.text("fieldSelector")),
        query.text("resourceVersion"),
        query.text("resourceVersionMatch"),
        max(limit or 0, 0),  # upstream treats a negative limit as none
        query.text("continue"),
        timeout_seconds,
        query.flag("allowWatchBookmarks"),
        query.optional_flag("sendInitialEvents"),
    )
    found = _check_watch(options) if watch else _check_list(options)
    if found:
        raise errors.invalid("meta.k8s.io", "ListOptions", "", found)
    memory.check_fields(query.text("fieldSelector"))
    return options


def _check_list(options: ListOptions) -> list[FieldError]:
    found: list[FieldError] = []
    if options.match:
        if not options.resource_version:
            found.append(
                field_path.forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if options.continue_token:
            found.append(field_path.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in ("Exact", "NotOlderThan"):
            found.append(field_path.not_supported(_MATCH, options.match, ("Exact", "NotOlderThan", "")))
        if options.match == "Exact" and options.resource_version == "0":
            found.append(
                field_path.forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
            )
    if options.initial_events is not None:
        found.append(field_path.forbidden(_INITIAL, "sendInitialEvents is forbidden for list"))
    return found


def _check_watch(options: ListOptions) -> list[FieldError]:
    found: list[FieldError] = []
    # Such a watch begins with the current state, as if it had asked for it by sendInitialEvents.
    begins_with_state = options.initial_events is None and not options.match and options.resource_version in ("", "0")
    if begins_with_state and options.continue_token:
        found.append(field_path.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    if options.initial_events is not None and options.match != "NotOlderThan":
        found.append(
            field_path.forbidden(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
    if options.match:
        if options.initial_events is None:
            found.append(
                field_path.forbidden(
                    _MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        if options.match != "NotOlderThan":
            found.append(field_path.not_supported(_MATCH, options.match, ("NotOlderThan",)))
        if options.continue_token:
            found.append(field_path.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    return found


def parse_revision(text: str) -> int:
    """Parse a resourceVersion; empty is 0. Raises ValueError with upstream's message."""
    try:
        return parse_resource_version(text)
    except ValueError as error:
        raise ValueError(f"resourceVersion: Invalid value: {field_path.quote(text)}: {error}") from None


def encode_continue(revision: int, last_name: str) -> str:
    """Return the continue token after the named object, at a revision (-1: the latest at that time)."""
    token = _ContinueToken(_TOKEN_VERSION, revision, last_name + "\0")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def decode_continue(text: str) -> tuple[int, str]:
    """Return (revision, last name) of a continue token; raises BadRequest."""
    try:
        token = _decoded_token(text)
    except ValueError as error:
        raise _token_error(str(error)) from None
    if token.v != _TOKEN_VERSION:
        raise _token_error(f"server does not recognize this encoded version {token.v}")
    if not token.rv:
        raise _token_error(f"incorrect encoded start resourceVersion (version {_TOKEN_VERSION})")
    if not token.start:
        raise _token_error(f"encoded start key empty (version {_TOKEN_VERSION})")
    return token.rv, token.start.rstrip("\0")


def _decoded_token(text: str) -> _ContinueToken:
    """Decode a token; raises ValueError with the message of Go's decoders."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise ValueError(f"illegal base64 data at input byte {_first_illegal(text)}") from None
    try:
        return _TOKEN.decode(raw)
    except (msgspec.DecodeError, ValueError):
        document = parse_json(raw)
    if not isinstance(document, Pairs):
        raise ValueError(f"json: cannot unmarshal {kind_of(document)} into Go value of type storage.continueToken")
    for name, value in document.items():
        wanted = "int64" if name == "rv" else "string"
        if name in _ContinueToken.__struct_fields__ and (kind_of(value) == "number") != (wanted == "int64"):
            field = f"Go struct field continueToken.{name} of type {wanted}"
            raise ValueError(f"json: cannot unmarshal {kind_of(value)} into {field}")
    return _ContinueToken()


def _first_illegal(text: str) -> int:
    """Return the position of the first character outside of the alphabet, else that of the incomplete end."""
    illegal = _NOT_BASE64.search(text)
    return illegal.start() if illegal else len(text) - len(text) % 4


def _token_error(why: str) -> errors.ApiError:
    return errors.bad_request(f"invalid continue token: continue key is not valid: {why}")
