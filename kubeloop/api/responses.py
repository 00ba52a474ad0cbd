# SPDX-License-Identifier: Apache-2.0
"""Decoding of an API server's response bodies into structs, custom resources, lists and statuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.meta_v1 import ListMeta
from kubeloop.api.kinds import RESOURCES, Resource, definition_of, type_of
from kubeloop.api.requests import Call, ListResult
from kubeloop.api.scalars import wire
from kubeloop.api.unstructured import PartialObjectMetadata, Unstructured

Decode = Callable[[bytes | msgspec.Raw], Any]

_BUILT_IN = {(one.group, one.version, one.plural) for one in RESOURCES}
_PLAIN = msgspec.json.Decoder()


class _TypeMeta(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""


class _RawList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


_TYPE_META = msgspec.json.Decoder(_TypeMeta)
_RAW_LIST = msgspec.json.Decoder(_RawList, dec_hook=wire.decode_hook)


def is_built_in(resource: Resource) -> bool:
    """Return True if objects of a resource have a generated struct class."""
    key = (resource.group, resource.version, resource.plural)
    return key in _BUILT_IN or ("a" in resource.version and key in _on_request())  # alpha or beta


@cache
def _on_request() -> set[tuple[str, str, str]]:
    from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES  # few servers serve these

    return {(one.group, one.version, one.plural) for one in OPTIONAL_RESOURCES}


@cache
def object_decoder(resource: Resource, metadata_only: bool = False) -> Decode:
    """Return the function that decodes one object's bytes: to a struct, or for custom resources to a mapping."""
    if metadata_only:
        return codec.decoder_of(PartialObjectMetadata).decode
    if is_built_in(resource):
        return codec.decoder_of(resource.type).decode
    return _custom


def decode_response(body: bytes, call: Call) -> Any:
    """Decode the response body of a successful call."""
    resource = call.resource
    if call.verb == "list":
        return decode_list(body, resource, call.metadata_only)
    if call.verb == "get" and not call.subresource:
        return object_decoder(resource, call.metadata_only)(body)
    if not body:
        return {}
    found = _TYPE_META.decode(body)
    if found.kind == "PartialObjectMetadata":
        return object_decoder(resource, True)(body)
    if (found.api_version, found.kind) == (resource.group_version, resource.kind):
        return object_decoder(resource)(body)
    if (found.api_version, found.kind) == (resource.group_version, resource.list_kind):
        return decode_list(body, resource, False)
    known = _subresource_type(resource, call.subresource, found.api_version, found.kind)
    return codec.decode(body, known) if known is not None else _PLAIN.decode(body)


def decode_list(body: bytes, resource: Resource, metadata_only: bool) -> ListResult:
    """Decode a page of a list."""
    raw, meta = split_list(body)
    items = decode_items(raw, resource, metadata_only)
    for one in items:
        if isinstance(one, msgspec.Struct):
            copy_list_bytes(one)
    return list_result(items, meta)


def split_list(body: bytes) -> tuple[Sequence[msgspec.Raw], ListMeta]:
    """Split a list into its items, not yet decoded, and its metadata."""
    found = _RAW_LIST.decode(body)
    return found.items or (), found.metadata


def list_result(items: Iterable[Any], meta: ListMeta) -> ListResult:
    """Build a ListResult from items and list metadata."""
    return ListResult(
        items=tuple(items),
        resource_version=meta.resource_version,
        continue_token=meta.continue_,
        remaining=meta.remaining_item_count,
    )


def decode_items(raw: Iterable[msgspec.Raw], resource: Resource, metadata_only: bool) -> list[Any]:
    """Decode a list's items, which lack their kind: structs have it anyway, mappings get it set.

    They may reference the list's bytes: see `copy_list_bytes`.
    """
    decode = object_decoder(resource, metadata_only)
    items = [decode(one) for one in raw]
    if decode is _custom:
        for one in items:
            one.document.setdefault("apiVersion", resource.group_version)
            one.document.setdefault("kind", resource.kind)
    return items


def copy_list_bytes(obj: Any) -> None:
    """Copy the bytes that an object references, so that it does not keep the bytes of its whole list alive."""
    for entry in obj.metadata.managed_fields:
        codec.force_setattr(entry, "fields_v1", entry.fields_v1.copy())


def _custom(body: bytes | msgspec.Raw) -> Unstructured:
    return Unstructured(_PLAIN.decode(body))


def _subresource_type(resource: Resource, subresource: str, api_version: str, kind: str) -> Any | None:
    """Return the struct class of a subresource's own kind, such as Scale; None if it has none."""
    if subresource == "token":
        wanted = ("authentication.k8s.io/v1", "TokenRequest")
    elif subresource in resource.by_name:
        declared = resource.by_name[subresource]
        wanted = (declared.group_version or resource.group_version, declared.kind)
    else:
        wanted = ("autoscaling/v1", "Scale")
    if (api_version, kind) != wanted:
        return None
    return type_of(definition_of(api_version, kind))
