"""OpenID Connect discovery document and public keys, for verification of service account tokens by others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubeloop.http import Response

if TYPE_CHECKING:
    from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens

CONFIGURATION_PATH = "/.well-known/openid-configuration"
KEYS_PATH = "/openid/v1/jwks"
_CACHED = (("Cache-Control", "public, max-age=3600"),)


def is_valid_issuer(issuer: str) -> bool:
    """Return True if the issuer is a plain https URL, from which keys could be fetched."""
    return issuer.startswith("https://") and "?" not in issuer and "#" not in issuer


def openid_configuration_response(tokens: ServiceAccountTokens, keys_uri: str) -> Response:
    """Return the OpenID discovery document as response."""
    document = {
        "issuer": tokens.issuer,
        "jwks_uri": keys_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key.scheme.algorithm for key in tokens.public_keys}),
    }
    return Response(200, msgspec.json.encode(document), headers=_CACHED)


def jwks_response(tokens: ServiceAccountTokens) -> Response:
    """Return the JSON Web Key Set as response."""
    document = {"keys": [key.described() for key in tokens.public_keys]}
    return Response(200, msgspec.json.encode(document), "application/jwk-set+json", _CACHED)
