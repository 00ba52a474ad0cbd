"""Content negotiation: chooses the response format from the Accept header.

Objects are stored as JSON, so JSON costs nothing and protocol buffers are made from it: these are chosen only for
clients that accept nothing else, whatever their ranking.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from kubeloop.api import errors

PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = ("application/json", "application/yaml", PROTOBUF)
_META = "meta.k8s.io"
_TRANSFORMS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}


class ResponseFormat(NamedTuple):
    """Media type and conversion of the objects: none, Table, or PartialObjectMetadata."""

    yaml: bool = False
    convert: str = ""
    meta_version: str = "v1"
    protobuf: bool = False


PLAIN = ResponseFormat()


@lru_cache(maxsize=512)
def negotiate(accept: str, convertible: bool = True) -> ResponseFormat:
    """Return the first supported format of an Accept header, protobuf last; raises NotAcceptable."""
    if not accept:
        return PLAIN
    for media, params in sorted(parse_accept(accept), key=lambda clause: clause[0] == PROTOBUF):
        if media not in (*ACCEPTED, "*/*", "application/*"):
            continue
        kind, yaml, protobuf = params.get("as", ""), media == "application/yaml", media == PROTOBUF
        if not kind:
            return ResponseFormat(yaml=yaml, protobuf=protobuf)
        version = params.get("v", "")
        known = kind in _TRANSFORMS and params.get("g") == _META and version in ("v1", "v1beta1")
        if known and convertible and not (protobuf and kind == "Table"):
            return ResponseFormat(yaml, kind, version, protobuf)
    raise errors.not_acceptable(ACCEPTED)


def parse_accept(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the media types with their parameters, highest quality first."""
    found = []
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        params = dict(part.split("=", 1) for part in rest if "=" in part)
        found.append((-_quality(params.get("q", "")), media.lower(), params))
    found.sort(key=lambda one: one[0])
    for _, media, params in found:
        yield media, params


def _quality(text: str) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 0.0
