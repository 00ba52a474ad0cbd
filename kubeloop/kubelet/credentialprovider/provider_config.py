# SPDX-License-Identifier: Apache-2.0
"""CredentialProviderConfig (kubelet.config.k8s.io v1, v1beta1, v1alpha1): decoding and validation. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from kubeloop.api.meta.field_path import (
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import check_qualified_name
from kubeloop.kubelet.credentialprovider.registry_url import RegistryUrlError, parse_registry_url
from kubeloop.runtime.component_config import ConfigDuration, decode_duration

PLUGIN_VERSIONS: Final = tuple(f"credentialprovider.kubelet.k8s.io/{one}" for one in ("v1", "v1alpha1", "v1beta1"))
TOKEN_CACHE: Final = "Token"
_GROUP, _KIND = "kubelet.config.k8s.io", "CredentialProviderConfig"
_VERSION_WITH_TOKENS = "v1"
_VERSIONS = (_VERSION_WITH_TOKENS, "v1beta1", "v1alpha1")
_CACHE_TYPES = ("ServiceAccount", TOKEN_CACHE)
_PROVIDERS = FieldPath("providers")
_NAME_RULES = {"/": "'/'", " ": "spaces"}


class ProviderConfigError(ValueError):
    """Raised for a configuration of credential providers that cannot be used."""


class _ProviderPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of the configuration's parts: unknown fields are refused."""


class ExecEnvVar(_ProviderPart, frozen=True, kw_only=True):
    """Environment variable of a plugin."""

    name: str = ""
    value: str = ""


class ServiceAccountTokenAttributes(_ProviderPart, frozen=True, kw_only=True):
    """Tokens of service accounts that a plugin gets."""

    service_account_token_audience: str = ""
    cache_type: str = ""
    require_service_account: bool | None = None
    required_service_account_annotation_keys: tuple[str, ...] = ()
    optional_service_account_annotation_keys: tuple[str, ...] = ()


class CredentialProvider(_ProviderPart, frozen=True, kw_only=True):
    """Plugin for the images that match; durations are seconds."""

    name: str = ""
    match_images: tuple[str, ...] = ()
    default_cache_duration: ConfigDuration | None = None
    api_version: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecEnvVar, ...] = ()
    token_attributes: ServiceAccountTokenAttributes | None = None


@dataclass(frozen=True, slots=True)
class CredentialPlugins:
    """Plugins of a node, and the folder of their programs."""

    providers: tuple[CredentialProvider, ...] = ()
    folder: Path = Path()


class _Config(_ProviderPart, frozen=True, kw_only=True):
    kind: str = ""
    api_version: str = ""
    providers: tuple[CredentialProvider, ...] = ()


def decode_providers(document: Any) -> tuple[CredentialProvider, ...]:
    """Return the plugins of a document. Raises `ProviderConfigError`."""
    if not isinstance(document, Mapping):
        raise ProviderConfigError("the document is not an object")
    kind, version = document.get("kind") or "", document.get("apiVersion") or ""
    if not kind or not version:
        missing = "Object 'Kind' is missing" if not kind else "Object 'apiVersion' is missing"
        raise ProviderConfigError(missing)
    group, _, version_name = str(version).rpartition("/")
    if kind != _KIND:
        raise ProviderConfigError(f'failed to decode "{kind}" (wrong Kind)')
    if group != _GROUP or version_name not in _VERSIONS:
        raise ProviderConfigError(f'no kind "{kind}" is registered for version "{version}"')
    try:
        found = msgspec.convert(document, _Config, dec_hook=decode_duration)
    except msgspec.ValidationError as error:
        raise ProviderConfigError(f"strict decoding error: {error}") from None
    has_tokens = any(one.token_attributes is not None for one in found.providers)
    if version_name != _VERSION_WITH_TOKENS and has_tokens:
        raise ProviderConfigError('strict decoding error: unknown field "tokenAttributes"')
    return found.providers


def merge_providers(configs: list[tuple[CredentialProvider, ...]]) -> tuple[CredentialProvider, ...]:
    """Return the plugins of all files. Raises `ProviderConfigError` for a name that is there twice."""
    merged: dict[str, CredentialProvider] = {}
    for one in (provider for config in configs for provider in config):
        if one.name in merged:
            raise ProviderConfigError(f'duplicate provider name "{one.name}" found in configuration file(s)')
        merged[one.name] = one
    return tuple(merged.values())


def validate_providers(providers: tuple[CredentialProvider, ...], *, allows_tokens: bool) -> list[FieldError]:
    """Return the errors of a configuration; tokens of service accounts are behind a feature gate."""
    if not providers:
        return [required(_PROVIDERS, "at least 1 item in plugins is required")]
    return [error for one in providers for error in (*_provider_errors(one), *_token_errors(one, allows_tokens))]


def _provider_errors(one: CredentialProvider) -> Iterator[FieldError]:
    name = _PROVIDERS.child("name")
    for text, what in _NAME_RULES.items():
        if text in one.name:
            yield invalid(name, one.name, f"provider name cannot contain {what}")
    if one.name in (".", ".."):
        yield invalid(name, one.name, f"provider name cannot be '{one.name}'")
    if not one.api_version:
        yield required(_PROVIDERS.child("apiVersion"))
    elif one.api_version not in PLUGIN_VERSIONS:
        yield not_supported(_PROVIDERS.child("apiVersion"), one.api_version, PLUGIN_VERSIONS)
    images = _PROVIDERS.child("matchImages")
    if not one.match_images:
        yield required(images, "at least 1 item in matchImages is required")
    for image in one.match_images:
        try:
            parse_registry_url(image)
        except RegistryUrlError as error:
            yield invalid(images, image, f"match image is invalid: {error}")
    duration = _PROVIDERS.child("defaultCacheDuration")
    if one.default_cache_duration is None:
        yield required(duration)
    elif one.default_cache_duration < 0:
        yield invalid(duration, str(one.default_cache_duration), "must be greater than or equal to 0")


def _token_errors(one: CredentialProvider, allows_tokens: bool) -> Iterator[FieldError]:
    tokens, path = one.token_attributes, _PROVIDERS.child("tokenAttributes")
    if tokens is None:
        return
    if not allows_tokens:
        gate = "KubeletServiceAccountTokenForCredentialProviders"
        yield forbidden(path, f"tokenAttributes is not supported when {gate} feature gate is disabled")
    if not tokens.service_account_token_audience:
        yield required(path.child("serviceAccountTokenAudience"))
    if tokens.require_service_account is None:
        yield required(path.child("requireServiceAccount"))
    if one.api_version != PLUGIN_VERSIONS[0]:
        yield forbidden(path, f"tokenAttributes is only supported for {PLUGIN_VERSIONS[0]} API version")
    yield from _annotation_errors(tokens, path)
    cache = path.child("cacheType")
    if not tokens.cache_type:
        values = ", ".join(_CACHE_TYPES)
        yield required(
            cache, f"cacheType is required to be set when tokenAttributes is specified. Supported values are: {values}"
        )
    elif tokens.cache_type not in _CACHE_TYPES:
        yield not_supported(cache, tokens.cache_type, _CACHE_TYPES)


def _annotation_errors(tokens: ServiceAccountTokenAttributes, path: FieldPath) -> Iterator[FieldError]:
    wanted, optional = (
        tokens.required_service_account_annotation_keys,
        tokens.optional_service_account_annotation_keys,
    )
    first = path.child("requiredServiceAccountAnnotationKeys")
    if tokens.require_service_account is False and wanted:
        yield forbidden(first, "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set")
    for where, keys in ((first, wanted), (path.child("optionalServiceAccountAnnotationKeys"), optional)):
        for at, key in enumerate(keys):
            yield from (invalid(where, key, why) for why in check_qualified_name(key.lower()))
            if key in keys[:at]:
                yield duplicate(where, key)
    if both := sorted(set(wanted) & set(optional)):
        yield invalid(path, both, "annotation keys cannot be both required and optional")
