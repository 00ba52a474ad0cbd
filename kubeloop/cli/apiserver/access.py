# SPDX-License-Identifier: Apache-2.0
"""Authentication and authorization configuration from flags."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.apiserver.authorization import DEFAULT_MODES
from kubeloop.apiserver.server import StartupError
from kubeloop.clock import Clock

if TYPE_CHECKING:
    from kubeloop.apiserver.authentication.oidc.authentication_config import StructuredAuthenticationConfig
    from kubeloop.apiserver.authentication.oidc.configuration import JWTAuthenticatorConfig
    from kubeloop.apiserver.authentication.webhook import WebhookAuthenticatorConfig
    from kubeloop.apiserver.authorization.webhook import WebhookAuthorizerConfig
    from kubeloop.apiserver.webhook_client.review_client import KubeconfigReader

log = logging.getLogger(__name__)


class AccessConfig(NamedTuple):
    """Configuration of authentication and authorization by other servers."""

    anonymous: bool
    modes: tuple[str, ...]
    anonymous_paths: frozenset[str] | None = None
    authentication: StructuredAuthenticationConfig | None = None
    token_webhook: WebhookAuthenticatorConfig | None = None
    authorization_webhook: WebhookAuthorizerConfig | None = None
    kubeconfigs: KubeconfigReader | None = None


def access_config(options: argparse.Namespace, issuers: Sequence[str], clock: Clock) -> AccessConfig:
    """Convert the flags to their configuration; raises StartupError. The issuers are those of service accounts."""
    from kubeloop.cli.apiserver.webhook_kubeconfig import WebhookKubeconfigReader

    _check_authorization_config(options)
    modes = options.authorization_mode or DEFAULT_MODES
    authentication = _authentication(options, issuers)
    anonymous, paths = _anonymous(options, modes, authentication)
    return AccessConfig(
        anonymous,
        modes,
        paths,
        authentication,
        _token_webhook(options),
        _authorization_webhook(options, modes),
        WebhookKubeconfigReader(clock),
    )


def _check_authorization_config(options: argparse.Namespace) -> None:
    """Reject an AuthorizationConfiguration beside the flags that it replaces; the server reads the file itself."""
    replaced = [name for name in vars(options) if name.startswith(("authorization_mode", "authorization_webhook_"))]
    if options.authorization_config is not None and any(getattr(options, name) is not None for name in replaced):
        raise StartupError(
            "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* "
            "flags are defined"
        )


def _authentication(options: argparse.Namespace, issuers: Sequence[str]) -> StructuredAuthenticationConfig | None:
    """Return the JWT authenticators, of a file or of the --oidc-* flags."""
    has_flags = any(getattr(options, name) is not None for name in vars(options) if name.startswith("oidc_"))
    path = options.authentication_config
    if path is not None and has_flags:
        raise StartupError("authentication-config file and oidc-* flags are mutually exclusive")
    if path is None and not has_flags:
        return None
    from kubeloop.apiserver.authentication.oidc.authentication_config import (
        authentication_of_flags,
        read_authentication_file,
    )
    from kubeloop.apiserver.config_file import ConfigFileError

    try:
        if path is not None:
            return read_authentication_file(path, issuers)
        algorithms = options.oidc_signing_algs or ("RS256",)
        return authentication_of_flags(_oidc_flags(options), algorithms, issuers)
    except ConfigFileError as error:
        raise StartupError(str(error)) from None


def _oidc_flags(options: argparse.Namespace) -> JWTAuthenticatorConfig:
    from kubeloop.apiserver.authentication.oidc.configuration import OidcFlags, configuration_of_flags

    if not options.oidc_issuer_url or not options.oidc_client_id:
        raise StartupError(
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
        )
    return configuration_of_flags(
        OidcFlags(
            options.oidc_issuer_url,
            options.oidc_client_id,
            Path(options.oidc_ca_file).read_text() if options.oidc_ca_file else "",
            options.oidc_username_claim or "sub",
            options.oidc_username_prefix or "",
            options.oidc_groups_claim or "",
            options.oidc_groups_prefix or "",
            dict(options.oidc_required_claim or ()),
        )
    )


def _anonymous(
    options: argparse.Namespace, modes: tuple[str, ...], authentication: StructuredAuthenticationConfig | None
) -> tuple[bool, frozenset[str] | None]:
    """Return whether anonymous requests are let in, and for which paths."""
    configured = authentication.configuration.anonymous if authentication is not None else None
    if configured is None:
        return _anonymous_flag(options.anonymous_auth is not False, modes), None
    if options.anonymous_auth is not None:
        raise StartupError(
            "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in "
            "authentication configuration file"
        )
    return configured.enabled, frozenset(one.path for one in configured.conditions) or None


def _anonymous_flag(is_enabled: bool, modes: tuple[str, ...]) -> bool:
    """Return the flag's value; false with AlwaysAllow, which would let anyone do anything."""
    if is_enabled and "AlwaysAllow" in modes:
        log.warning(
            "AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false. "
            "You should use a different authorizer"
        )
        return False
    return is_enabled


def _token_webhook(options: argparse.Namespace) -> WebhookAuthenticatorConfig | None:
    path, version = options.authentication_token_webhook_config_file, options.authentication_token_webhook_version
    if path is None:
        return None
    from kubeloop.apiserver.authentication.webhook import VERSIONS, WebhookAuthenticatorConfig

    if version not in VERSIONS:
        raise StartupError(
            f'unsupported authentication webhook version "{version}", supported versions are "v1", "v1beta1"'
        )
    return WebhookAuthenticatorConfig(path, version, options.authentication_token_webhook_cache_ttl)


def _authorization_webhook(options: argparse.Namespace, modes: tuple[str, ...]) -> WebhookAuthorizerConfig | None:
    path, version = options.authorization_webhook_config_file, options.authorization_webhook_version or "v1beta1"
    if "Webhook" in modes and path is None:
        raise StartupError("authorization-mode Webhook's authorization config file not passed")
    if path is None:
        return None
    if "Webhook" not in modes:
        raise StartupError("cannot specify --authorization-webhook-config-file without mode Webhook")
    from kubeloop.apiserver.authorization.webhook import VERSIONS, WebhookAuthorizerConfig

    if version not in VERSIONS:
        raise StartupError(
            f'unsupported webhook authorizer version "{version}", supported versions are "v1", "v1beta1"'
        )
    usual = WebhookAuthorizerConfig(path)
    authorized = options.authorization_webhook_cache_authorized_ttl
    unauthorized = options.authorization_webhook_cache_unauthorized_ttl
    return WebhookAuthorizerConfig(
        path,
        version,
        usual.authorized_ttl if authorized is None else authorized,
        usual.unauthorized_ttl if unauthorized is None else unauthorized,
    )
