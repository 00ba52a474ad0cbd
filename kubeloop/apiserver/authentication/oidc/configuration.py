# SPDX-License-Identifier: Apache-2.0
"""AuthenticationConfiguration files, and the same configuration from --oidc-* flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubeloop.apiserver.config_file import ConfigFileError, StrictStruct, decode_config

VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")


class Issuer(StrictStruct, frozen=True):
    """Issuer of tokens."""

    url: str = ""
    discovery_url: str = msgspec.field(default="", name="discoveryURL")
    certificate_authority: str = ""
    audiences: tuple[str, ...] = ()
    audience_match_policy: str = ""
    egress_selector_type: str = ""


class ClaimValidationRule(StrictStruct, frozen=True):
    """Requirement on the claims: a claim with its value, or an expression."""

    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


class PrefixedClaimOrExpression(StrictStruct, frozen=True):
    """Source of a user's name or groups."""

    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class ClaimOrExpression(StrictStruct, frozen=True):
    """Source of a user's UID."""

    claim: str = ""
    expression: str = ""


class ExtraMapping(StrictStruct, frozen=True):
    """Source of one extra field."""

    key: str = ""
    value_expression: str = ""


class ClaimMappings(StrictStruct, frozen=True):
    """Sources of the user's attributes."""

    username: PrefixedClaimOrExpression = PrefixedClaimOrExpression()
    groups: PrefixedClaimOrExpression = PrefixedClaimOrExpression()
    uid: ClaimOrExpression = ClaimOrExpression()
    extra: tuple[ExtraMapping, ...] = ()


class UserValidationRule(StrictStruct, frozen=True):
    """Requirement on the user."""

    expression: str = ""
    message: str = ""


class JWTAuthenticatorConfig(StrictStruct, frozen=True):
    """Configuration of the tokens of one issuer."""

    issuer: Issuer = Issuer()
    claim_validation_rules: tuple[ClaimValidationRule, ...] = ()
    claim_mappings: ClaimMappings = ClaimMappings()
    user_validation_rules: tuple[UserValidationRule, ...] = ()


class AnonymousCondition(StrictStruct, frozen=True):
    """Path for which anonymous requests are let in."""

    path: str = ""


class AnonymousConfig(StrictStruct, frozen=True):
    """Switch of anonymous requests; with conditions, they are let in for some paths only."""

    enabled: bool = False
    conditions: tuple[AnonymousCondition, ...] = ()


class AuthenticationConfiguration(StrictStruct, frozen=True):
    """AuthenticationConfiguration file."""

    kind: str = ""
    api_version: str = ""
    jwt: tuple[JWTAuthenticatorConfig, ...] = ()
    anonymous: AnonymousConfig | None = None


class OidcFlags(msgspec.Struct, frozen=True):
    """Values of the --oidc-* flags."""

    issuer_url: str
    client_id: str
    authority: str = ""  # PEM
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = ""
    groups_prefix: str = ""
    required_claims: Mapping[str, str] = {}


def parse_authentication_configuration(data: bytes) -> AuthenticationConfiguration:
    """Decode a file's content; raises ConfigFileError."""
    if not data:
        raise ConfigFileError("empty config data")
    return decode_config(data, "AuthenticationConfiguration", VERSIONS, AuthenticationConfiguration)


def configuration_of_flags(flags: OidcFlags) -> JWTAuthenticatorConfig:
    """Return the configuration that the --oidc-* flags stand for."""
    prefix = flags.username_prefix
    if not prefix and flags.username_claim != "email":
        prefix = f"{flags.issuer_url}#"
    elif prefix == "-":
        prefix = ""
    groups = PrefixedClaimOrExpression(flags.groups_claim, flags.groups_prefix) if flags.groups_claim else None
    return JWTAuthenticatorConfig(
        Issuer(flags.issuer_url, "", flags.authority, (flags.client_id,)),
        tuple(ClaimValidationRule(claim, value) for claim, value in flags.required_claims.items()),
        ClaimMappings(PrefixedClaimOrExpression(flags.username_claim, prefix), groups or PrefixedClaimOrExpression()),
    )
