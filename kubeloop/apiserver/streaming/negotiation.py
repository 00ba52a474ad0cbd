# SPDX-License-Identifier: Apache-2.0
"""SPDY upgrade handshake: negotiates the stream protocol."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.api import errors

SPDY = "SPDY/3.1"
_VERSION = "X-Stream-Protocol-Version"


def spdy_protocol(headers: Mapping[str, str], known: tuple[str, ...]) -> str:
    """Return the client's first protocol that is known; raises BadRequest or Forbidden as upstream does."""
    if SPDY.lower() not in headers.get("upgrade", "").lower():
        raise errors.bad_request("unable to upgrade: missing upgrade headers in request")
    if _VERSION.lower() not in headers:
        said = f"unable to upgrade: header {_VERSION} does not exist in request with {len(headers)} headers"
        raise errors.bad_request(said)
    offered = [one.strip() for one in headers[_VERSION.lower()].split(",") if one.strip()]
    found = next((one for one in offered if one in known), "")
    if not found:
        raise errors.Forbidden(
            "unable to upgrade: unable to negotiate protocol: "
            f"client supports [{' '.join(offered)}], server accepts [{' '.join(known)}]"
        )
    return found


def spdy_headers(protocol: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of the response that starts SPDY."""
    return ("Connection", "Upgrade"), ("Upgrade", SPDY), (_VERSION, protocol)
