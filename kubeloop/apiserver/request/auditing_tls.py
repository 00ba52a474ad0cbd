"""TLS contexts that report rejected client certificates.

The TLS library verifies certificates during the handshake, before there is a request to answer, and the event loop
drops the connection silently. The callback lets the audit log record such clients.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

OnClientRejected = Callable[[str], None]  # called with the TLS library's reason


class AuditingSSLContext(ssl.SSLContext):
    """TLS context that calls `refused` for each handshake that fails because of the client's certificate."""

    def __init__(self, protocol: int) -> None:
        self.sslobject_class = _Handshake
        self.refused: OnClientRejected = _ignore


class _Handshake(ssl.SSLObject):
    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            assert isinstance(self.context, AuditingSSLContext)
            self.context.refused(error.verify_message or str(error))
            raise


def _ignore(_: str) -> None:
    return
