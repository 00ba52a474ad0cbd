"""Which form of an answer a client asks for in its Accept header."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from kubeloop.api import errors

ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_META = "meta.k8s.io"
_TRANSFORMS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}


class Format(NamedTuple):
    """A media type, and what objects are turned into: nothing, a table, or their metadata."""

    yaml: bool = False
    convert: str = ""
    meta_version: str = "v1"


PLAIN = Format()


@lru_cache(maxsize=512)
def negotiate(accept: str, convertible: bool = True) -> Format:
    """The first form in an Accept header that we can give; raises NotAcceptable."""
    if not accept:
        return PLAIN
    for media, params in clauses(accept):
        if media not in ("application/json", "application/yaml", "*/*", "application/*"):
            continue
        kind = params.get("as", "")
        if not kind:
            return Format(yaml=media == "application/yaml")
        version = params.get("v", "")
        known = kind in _TRANSFORMS and params.get("g") == _META and version in ("v1", "v1beta1")
        if known and convertible:
            return Format(media == "application/yaml", kind, version)
    raise errors.not_acceptable(ACCEPTED)


def clauses(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Media types with their parameters, most wanted first."""
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
