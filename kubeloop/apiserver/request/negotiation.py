# SPDX-License-Identifier: Apache-2.0
"""Content negotiation: chooses the response format from the Accept header.

Objects are stored as JSON, so JSON costs nothing and protocol buffers are made from it: these are chosen only for
clients that accept nothing else, whatever their ranking.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from kubeloop.api import errors
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Target
from kubeloop.http import Request

PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = ("application/json", "application/yaml", PROTOBUF)
_META = "meta.k8s.io"
# Media types of lists, which may be watched.
_STREAMED = (*ACCEPTED, "application/json;stream=watch", f"{PROTOBUF};stream=watch")
_CONNECTED = ("attach", "exec", "portforward", "proxy")
_ANY = ("", "*/*", "application/json")
_CONVERSION = frozenset(("as", "g", "v"))
_TRANSFORMS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}


class ResponseFormat(NamedTuple):
    """Media type and conversion of the objects: none, Table, or PartialObjectMetadata."""

    yaml: bool = False
    convert: str = ""
    meta_version: str = "v1"
    protobuf: bool = False
    pretty: bool = False  # indented; for JSON only


PLAIN = ResponseFormat()


# Browsers and command-line tools whose users read the response themselves.
_READERS = ("curl", "Wget", "Mozilla/5.0")
_TRUE = ("1", "t", "T", "TRUE", "true", "True")


def requested_format(request: Request, convertible: bool = True) -> ResponseFormat:
    """Return the response format of a request; PLAIN itself for ordinary clients. Raises NotAcceptable."""
    accept = request.headers.get("accept", "")
    form = PLAIN if accept in _ANY else negotiate(accept, convertible)
    return form._replace(pretty=True) if _is_pretty(request) else form


def _is_pretty(request: Request) -> bool:
    if "pretty" in request.query:
        asked = Query(request.query).text("pretty")
        if asked:
            return asked in _TRUE
    return request.headers.get("user-agent", "").startswith(_READERS)


def accepts_plain(request: Request) -> bool:
    """Return True if a client accepts whatever it gets, and does not ask for indentation, as nearly all do."""
    headers = request.headers
    return (
        headers.get("accept", "") in _ANY
        and "pretty" not in request.query
        and not headers.get("user-agent", "").startswith(_READERS)
    )


def check_routed_format(request: Request, target: Target, verb: str) -> None:
    """Raise NotAcceptable as upstream's router does, before a handler can add warnings."""
    accept = request.headers.get("accept", "")
    if accept not in _ANY and not target.resource.is_custom:
        check_representations(accept, _representations(target.subresource, verb))


def requested_object_format(request: Request, target: Target) -> ResponseFormat:
    """Return the response format of a resource request; raises NotAcceptable as upstream's handlers do."""
    if request.headers.get("accept", "") not in _ANY and target.subresource in _CONNECTED:
        return PLAIN
    return requested_format(request, "get" in target.resource.verbs and target.subresource != "log")


def _representations(subresource: str, verb: str) -> tuple[str, ...]:
    """Return the media types that upstream's router knows for a verb."""
    if subresource in _CONNECTED:
        return ("*/*",)
    if subresource == "log":
        return ("text/plain", *ACCEPTED)
    return _STREAMED if verb in ("list", "watch") else ACCEPTED


@lru_cache(maxsize=512)
def check_representations(accept: str, representations: tuple[str, ...]) -> None:
    """Raise NotAcceptable if no media type of an Accept header is one of these; parameters do not count."""
    known = {"*/*", *representations}
    if "*/*" not in representations and not any(
        clause.partition(";")[0].strip(" ") in known for clause in (accept or "*/*").split(",")
    ):
        available = ", ".join(representations)
        raise errors.generic_server_response(406, f"406: Not Acceptable\n\nAvailable representations: {available}")


@lru_cache(maxsize=512)
def negotiate(accept: str, convertible: bool = True) -> ResponseFormat:
    """Return the first supported format of an Accept header, protobuf last; raises NotAcceptable.

    Objects of a resource are `convertible`; other responses have no conversions.
    """
    if not accept:
        return PLAIN
    for media, params in sorted(parse_accept(accept), key=lambda clause: clause[0] == PROTOBUF):
        for accepted in ACCEPTED if media in ("*/*", "application/*") else (media,):
            form = _format_of(accepted, params, convertible) if accepted in ACCEPTED else None
            if form is not None:
                return form
    raise errors.not_acceptable(ACCEPTED)


def _format_of(media: str, params: Mapping[str, str], convertible: bool) -> ResponseFormat | None:
    """Return the format that a clause requests, or None if the endpoint does not support its parameters."""
    yaml, protobuf = media == "application/yaml", media == PROTOBUF
    if params.get("stream") and (yaml or params["stream"] != "watch"):
        return None
    if params.get("sv") and not (convertible and params["sv"] == "v1"):
        return None
    pretty = params.get("pretty") == "1"
    if not _CONVERSION.intersection(params):
        return ResponseFormat(yaml=yaml, protobuf=protobuf, pretty=pretty) if yaml or protobuf or pretty else PLAIN
    kind, version = params.get("as", ""), params.get("v", "")
    known = kind in _TRANSFORMS and params.get("g") == _META and version in ("v1", "v1beta1")
    if not known or not convertible or (protobuf and kind == "Table"):
        return None
    return ResponseFormat(yaml, kind, version, protobuf, pretty)


def parse_accept(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return the media types with their parameters in order of preference, as upstream's library sorts them."""
    found: list[tuple[float, str, dict[str, str]]] = []
    for text in accept.split(","):
        clause, *rest = text.split(";")
        main, _, sub = clause.partition("/")
        main, sub = main.strip(" "), sub.strip(" ")
        if main == "*" and not sub:
            sub = "*"
        if not sub or "/" in sub:
            continue
        pairs = (part.split("=") for part in rest)
        params = {pair[0].strip(" "): pair[1] for pair in pairs if len(pair) == 2 and pair[1]}
        quality = _quality(params.pop("q")) if "q" in params else 1.0
        params = {name: value.strip(" ") for name, value in params.items()}
        _insert(found, (quality, f"{main}/{sub}", params))
    return [(media, params) for _, media, params in found]


def _insert(found: list[tuple[float, str, dict[str, str]]], clause: tuple[float, str, dict[str, str]]) -> None:
    """Insert a clause before those that it precedes: by quality, or because they have a wildcard and it has none."""
    at = len(found)
    while at and _precedes(clause, found[at - 1]):
        at -= 1
    found.insert(at, clause)


def _precedes(one: tuple[float, str, Any], other: tuple[float, str, Any]) -> bool:
    if one[0] > other[0]:
        return True
    (main, sub), (other_main, other_sub) = one[1].split("/"), other[1].split("/")
    return (main != "*" and other_main == "*") or (sub != "*" and other_sub == "*")


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
