"""What others need to check our service accounts' tokens: OpenID Connect's discovery document and the public keys."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import msgspec

from kubeloop.apiserver.http import Response

if TYPE_CHECKING:
    from kubeloop.apiserver.service_account_tokens import ServiceAccountTokens

CONFIGURATION_PATH = "/.well-known/openid-configuration"
KEYS_PATH = "/openid/v1/jwks"
_CACHED = (("Cache-Control", "public, max-age=3600"),)
_ALGORITHM = "ES256"


def is_issuer(issuer: str) -> bool:
    """Whether others could fetch keys in the issuer's name at all: it must be a plain https address."""
    return issuer.startswith("https://") and "?" not in issuer and "#" not in issuer


def configuration(tokens: ServiceAccountTokens, keys_uri: str) -> Response:
    document = {
        "issuer": tokens.issuer,
        "jwks_uri": keys_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [_ALGORITHM],
    }
    return Response(200, msgspec.json.encode(document), headers=_CACHED)


def keys(tokens: ServiceAccountTokens) -> Response:
    key = tokens.key
    point = key.public_key.public_numbers()
    described = {
        "use": "sig",
        "kty": "EC",
        "kid": key.key_id,
        "crv": "P-256",
        "alg": _ALGORITHM,
        "x": _coordinate(point.x),
        "y": _coordinate(point.y),
    }
    return Response(200, msgspec.json.encode({"keys": [described]}), "application/jwk-set+json", _CACHED)


def _coordinate(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(32)).rstrip(b"=").decode()
