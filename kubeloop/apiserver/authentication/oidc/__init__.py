# SPDX-License-Identifier: Apache-2.0
"""JWT authenticators: tokens of external issuers (OpenID Connect), verified with keys that their issuer publishes.

configuration ─ validation ─▶ claims.ClaimMapper (CEL) ─┐
provider: discovery, key set ─ keys: signatures ────────┴▶ authenticator.JWTAuthenticators ─▶ user
"""
