# SPDX-License-Identifier: Apache-2.0
"""Defaults of CustomResourceDefinitions and APIServices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.apiextensions_v1 import (
    CustomResourceConversion,
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
    JSONSchemaProps,
)
from kubeloop.api.generated.apiregistration_v1 import APIService

_HTTPS = 443
_NO_CONVERSION = CustomResourceConversion(strategy="None")


def default_custom_resource_definition(definition: CustomResourceDefinition) -> None:
    """Apply the defaults of a CustomResourceDefinition."""
    spec = definition.spec
    _default_names(spec.names)
    if spec.conversion is None:
        force_setattr(spec, "conversion", _NO_CONVERSION)
    elif spec.conversion.webhook is not None and spec.conversion.webhook.client_config is not None:
        service = spec.conversion.webhook.client_config.service
        if service is not None and service.port is None:
            force_setattr(service, "port", _HTTPS)
    for version in spec.versions or ():
        if version.schema is not None and version.schema.open_apiv3_schema is not None:
            _drop_zero_values(version.schema.open_apiv3_schema)
    if not definition.status.stored_versions:
        stored = next((version.name for version in spec.versions or () if version.storage), None)
        if stored is not None:
            force_setattr(definition.status, "stored_versions", (stored,))


def default_api_service(service: APIService) -> None:
    """Apply the defaults of an APIService."""
    backend = service.spec.service
    if backend is not None and backend.port is None:
        force_setattr(backend, "port", _HTTPS)


def _default_names(names: CustomResourceDefinitionNames) -> None:
    if not names.singular:
        force_setattr(names, "singular", names.kind.lower())
    if not names.list_kind and names.kind:
        force_setattr(names, "list_kind", names.kind + "List")


def _drop_zero_values(schema: JSONSchemaProps) -> None:
    """Drop explicit zero values (`nullable: false`) from the schemas that are kept as JSON, as Go's decoder does.

    A field with two shapes, such as `items`, holds a schema, a list of schemas, or another value that stays as it is.
    """
    for name in ("items", "additional_items", "additional_properties"):
        force_setattr(schema, name, _without_zero_values(getattr(schema, name)))
    if schema.dependencies:
        kept = {key: _without_zero_values(value) for key, value in schema.dependencies.items()}
        force_setattr(schema, "dependencies", kept)
    for child in _typed_children(schema):
        _drop_zero_values(child)


def _without_zero_values(raw: msgspec.Raw) -> msgspec.Raw:
    opening = bytes(raw).lstrip()[:1]
    if opening not in (b"{", b"["):
        return raw
    kind: Any = JSONSchemaProps if opening == b"{" else list[JSONSchemaProps]
    try:
        found = msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:  # names of properties, or an error that validation reports
        return raw
    for schema in [found] if opening == b"{" else found:
        _drop_zero_values(schema)
    return msgspec.Raw(msgspec.json.encode(found))


def _typed_children(schema: JSONSchemaProps) -> Iterator[JSONSchemaProps]:
    maps = (schema.properties, schema.pattern_properties, schema.definitions)
    single = () if schema.not_ is None else (schema.not_,)
    yield from chain(*(one.values() for one in maps), schema.all_of, schema.any_of, schema.one_of, single)
