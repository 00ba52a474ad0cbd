"""Options of list and watch requests: versions, pages and selectors, with upstream's validation."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import msgspec

from kubeloop.api import errors
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldError, FieldPath
from kubeloop.apiserver.registry.selector_fields import ObjectSelector, SelectorFieldCache
from kubeloop.apiserver.request.query import Query

_MATCH = FieldPath("resourceVersionMatch")
_INITIAL = FieldPath("sendInitialEvents")


class _ContinueToken(msgspec.Struct):
    v: str
    rv: int
    start: str


_TOKEN = msgspec.json.Decoder(_ContinueToken)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Validated options of one list or watch."""

    selection: ObjectSelector
    resource_version: str
    match: str
    limit: int
    continue_token: str
    timeout_seconds: int | None
    bookmarks: bool
    initial_events: bool | None

    def revision(self) -> int:
        """Return the requested resourceVersion as a number; raises ValueError with Go's message."""
        return parse_revision(self.resource_version)


def parse_list_options(query: Query, memory: SelectorFieldCache, watch: bool) -> ListOptions:
    """Parse and validate the query of a list or watch."""
    if not query:
        return ListOptions(memory.selection("", ""), "", "", 0, "", None, False, None)
    selection = memory.selection(query.text("labelSelector"), query.text("fieldSelector"))
    options = ListOptions(
        selection,
        query.text("resourceVersion"),
        query.text("resourceVersionMatch"),
        max(query.integer("limit") or 0, 0),  # upstream treats a negative limit as none
        query.text("continue"),
        query.integer("timeoutSeconds"),
        query.flag("allowWatchBookmarks"),
        query.optional_flag("sendInitialEvents"),
    )
    found = _check_watch(options) if watch else _check_list(options)
    if found:
        raise errors.invalid("meta.k8s.io", "ListOptions", "", found)
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
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ValueError(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    number = int(text)
    if number >= 2**64:
        raise ValueError(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": value out of range'
        )
    return number


def encode_continue(revision: int, last_name: str) -> str:
    """Return the continue token after the named object, at a revision (-1: the latest at that time)."""
    token = _ContinueToken("meta.k8s.io/v1", revision, last_name + "\0")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def decode_continue(text: str) -> tuple[int, str]:
    """Return (revision, last name) of a continue token; raises BadRequest."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = _TOKEN.decode(raw)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise errors.bad_request(f"continue key is not valid: {_decode_error(text)}") from None
    if token.v != "meta.k8s.io/v1":
        raise errors.bad_request(
            f'continue key is not valid: server does not recognize this encoded version "{token.v}"'
        )
    if not token.start:
        raise errors.bad_request("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
    return token.rv, token.start.rstrip("\0")


def _decode_error(text: str) -> str:
    try:
        base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        return "illegal base64 data at input byte 0"
    return "the token isn't JSON"
