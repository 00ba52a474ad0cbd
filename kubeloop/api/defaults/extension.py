"""Defaults of CustomResourceDefinitions and APIServices."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.apiextensions_v1 import (
    CustomResourceConversion,
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
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
