"""From a request's body to a defaulted object, with upstream's strictness and words.

    body ─ typed decode ─ ordinary? ─ yes ────────────────────────────▶ defaults ─▶ object
              │ fails        │ no                                         ▲
              └──────────────┴──▶ parse ─ kind fits? ─ unmarshal ─ typed ─┘ with warnings, or a refusal

The common body takes one typed decode and a quick look. Everything unusual (nulls, unknown or repeated fields, YAML,
wrong types) goes a slower way that can say exactly what is wrong. A body in protocol buffers becomes a plain document
first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.kinds import Resource, definition_of
from kubeloop.api.schema import definitions
from kubeloop.apiserver.decoding.go_json import MAX_DEPTH, GoJsonError, parse_json
from kubeloop.apiserver.decoding.ordinary import Unusual, keys_written, look_at
from kubeloop.apiserver.decoding.outcome import Decoded, StrictError, refused, unrecognized
from kubeloop.apiserver.decoding.shapes import shape_of
from kubeloop.apiserver.decoding.type_meta import (
    TypeMeta,
    UnrecognizedError,
    check_convertible,
    check_known,
    completed,
    interpret,
)
from kubeloop.apiserver.decoding.unmarshal import unmarshal

__all__ = ["Decoded", "StrictError", "decode_document", "decode_known", "decode_object", "decode_own", "parse_yaml"]

ACCEPTED: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
# What decoding raises on what isn't ordinary.
_FAILURES: Final = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


def decode_object(body: bytes, content_type: str, resource: Resource, validation: str) -> Decoded:
    """A body of one resource's kind, defaulted; raises BadRequest or UnsupportedMediaType.

    A refusal's `__cause__` is the reason alone, without what the body was taken for.
    """
    if resource.is_custom:
        from kubeloop.apiserver.apiextensions import decoder as custom  # many servers have no custom resources

        return custom.decode_body(body, content_type, resource, validation)
    if content_type and content_type != ACCEPTED[0]:
        media = content_type.partition(";")[0].strip().lower()
        if media == ACCEPTED[1]:
            return _decode_yaml(body, resource, validation)
        if media == ACCEPTED[2]:
            return _decode_protobuf(body, resource, validation)
        if media != ACCEPTED[0]:
            raise errors.unsupported_media_type(ACCEPTED)
    obj = _ordinary_object(body, resource)
    if obj is not None:
        apply_defaults(obj)
        return Decoded(obj, [])
    try:
        document = parse_json(body)
    except GoJsonError as error:
        why = f"couldn't get version/kind; json parse error: {error}"
        raise unrecognized(why, body, resource) from error
    return _decode_carefully(_Source(document, body), resource, validation)


def decode_own(body: bytes, resource: Resource) -> Any | None:
    """A body that was encoded from a struct of the resource's class, defaulted; None where it needs a closer look."""
    if b"null" in body:  # in free-form JSON it may stand for nothing
        return None
    obj = _typed(body, resource)
    if obj is not None:
        apply_defaults(obj)
    return obj


def decode_document(
    document: dict[str, Any], resource: Resource, validation: str, changed_by: Any | None = None
) -> Decoded:
    """The same for a document that a patch produced, whose version may be any that converts.

    Where the patch says by its own fields which ones it changes, only those can be unknown.
    """
    try:
        body = msgspec.json.encode(document)
    except RecursionError:
        raise unrecognized(MAX_DEPTH, b"", resource) from GoJsonError(MAX_DEPTH)
    if resource.is_custom:
        from kubeloop.apiserver.apiextensions import decoder as custom

        return custom.decode_plain(custom.decode_text(body), body, resource, validation)
    obj = _typed(body, resource)
    if obj is not None and (_is_known(changed_by, resource) or _is_known(document, resource)):
        apply_defaults(obj)
        return Decoded(obj, [])
    return _decode_carefully(_Source(document, body, any_version=True), resource, validation)


def decode_known(
    document: dict[str, Any], resource: Resource, changed_by: Any, others: Mapping[str, Any]
) -> Any | None:
    """The same for parts of an object, completed by others; None if they have to be looked at more closely."""
    obj = _typed(msgspec.json.encode(document), resource)
    if obj is None or not (_is_known(changed_by, resource) or _is_known(document, resource)):
        return None
    for name, part in others.items():
        codec.force_setattr(obj, name, part)
    apply_defaults(obj)
    return obj


def _is_known(document: Any, resource: Resource) -> bool:
    try:
        look_at(document, resource.definition)
    except (Unusual, AttributeError, TypeError):  # a patch need not have an object's shape
        return False
    return True


def _typed(body: bytes, resource: Resource) -> Any:
    """The body as the resource's own kind; None when it isn't one, or not plainly so."""
    try:
        obj = codec.decode(body, resource.type)
    except _FAILURES:
        return None
    fits = obj.kind == resource.kind and obj.api_version == resource.group_version
    return obj if fits else None


def _ordinary_object(body: bytes, resource: Resource) -> Any:
    obj = _typed(body, resource)
    if obj is None:
        return None
    try:
        return obj if look_at(msgspec.json.decode(body), resource.definition) == keys_written(body) else None
    except (Unusual, *_FAILURES):
        return None


class _Source(NamedTuple):
    """What is to be decoded, and what is known of it from where it was parsed."""

    document: Any
    body: bytes
    repeated: Sequence[str] = ()  # what a YAML parser says about repeated keys
    any_version: bool = False


def parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    """A YAML (or JSON) document with warnings about repeated keys; raises ValueError."""
    parsed: tuple[Any, list[str]] = _yaml().parse_yaml(body)
    return parsed


def _yaml() -> Any:
    """Imported when first needed: most clients speak JSON, and a start shouldn't wait for the YAML library."""
    return import_module(f"{__name__}.yaml_text")


def _decode_yaml(body: bytes, resource: Resource, validation: str) -> Decoded:
    try:
        document, repeated = _yaml().read_yaml(body)
    except ValueError as error:
        raise unrecognized(str(error), body, resource) from error
    return _decode_carefully(_Source(document, body, repeated), resource, validation)


def _decode_protobuf(body: bytes, resource: Resource, validation: str) -> Decoded:
    """Such a body has no unknown or repeated fields to complain of: numbers that nobody knows are skipped."""
    from kubeloop.api import protobuf  # only when first needed, as the YAML library

    try:
        envelope = protobuf.open_envelope(body)
        meta = completed(interpret({"apiVersion": envelope.api_version, "kind": envelope.kind}), resource)
    except ValueError as error:
        raise unrecognized(str(error), body, resource) from error
    document: dict[str, Any] = {"kind": meta.kind, "apiVersion": meta.group_version}
    if protobuf.is_known(meta.group_version, meta.kind):
        try:
            document = protobuf.read_object(meta.group_version, meta.kind, envelope.raw)
        except ValueError as error:
            raise refused(meta, resource, str(error)) from error
    return _decode_plain(document, body, resource, validation)


def _decode_plain(document: dict[str, Any], body: bytes, resource: Resource, validation: str) -> Decoded:
    """A document without surprises in its keys; what is wrong with it otherwise, the slow way tells."""
    try:
        obj = _typed(codec.encode(document), resource)
    except RecursionError:
        obj = None
    if obj is None:
        return _decode_carefully(_Source(document, body), resource, validation)
    apply_defaults(obj)
    return Decoded(obj, [])


def _decode_carefully(source: _Source, resource: Resource, validation: str) -> Decoded:
    """The slow way."""
    try:
        meta = completed(interpret(source.document), resource)
    except UnrecognizedError as error:
        raise unrecognized(str(error), source.body, resource) from error
    try:
        obj, strict = _careful_object(source, meta, resource, validation)
    except RecursionError:
        raise refused(meta, resource, MAX_DEPTH) from GoJsonError(MAX_DEPTH)
    except _FAILURES as error:
        raise refused(meta, resource, str(error)) from error
    if meta.group_version != resource.group_version and not source.any_version:
        raise errors.bad_request(
            f"the API version in the data ({meta.group_version}) does not match "
            f"the expected API version ({resource.group_version})"
        )
    apply_defaults(obj)
    return Decoded(obj, [] if validation == "Ignore" else [*source.repeated, *strict])


def _careful_object(source: _Source, meta: TypeMeta, resource: Resource, validation: str) -> tuple[Any, list[str]]:
    """The object with what strictness has to say about it; raises ValueError."""
    check_known(meta, resource)
    plain, strict = _unmarshal(source.document, meta, resource)
    check_convertible(meta, resource)
    if validation == "Strict" and (strict or source.repeated):
        repeated = ["\n  ".join(("yaml: unmarshal errors:", *source.repeated))] if source.repeated else []
        raise StrictError([*repeated, *strict])
    plain["kind"], plain["apiVersion"] = resource.kind, resource.group_version
    return codec.decode(codec.encode(plain), resource.type), strict


def _unmarshal(document: Any, meta: TypeMeta, resource: Resource) -> tuple[dict[str, Any], list[str]]:
    """Read as the kind it says it is, as far as we know that one's fields."""
    definition = definition_of(meta.group_version, meta.kind)
    if definition not in definitions():
        definition = "" if (meta.kind, meta.group) != (resource.kind, resource.group) else resource.definition
    return unmarshal(document, shape_of(definition)) if definition else ({}, [])
