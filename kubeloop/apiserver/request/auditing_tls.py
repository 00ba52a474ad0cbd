# SPDX-License-Identifier: Apache-2.0
"""TLS contexts that report rejected clients, and that can be replaced while a server listens.

The TLS library verifies certificates during the handshake, before there is a request to answer, and the event loop
drops the connection silently. The callback lets the audit log record such clients.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

OnClientRejected = Callable[[str], None]  # called with the TLS library's reason


class AuditingSSLContext(ssl.SSLContext):
    """TLS context that calls `on_client_rejected` for each handshake that fails because of the client's certificate."""

    def __init__(self, protocol: int) -> None:
        self.sslobject_class = _Handshake
        self.on_client_rejected: OnClientRejected = _ignore


class ReloadableSSLContext(AuditingSSLContext):
    """TLS context whose connections use the current one of a sequence of contexts.

    A context cannot forget an authority; a server listens with this one and its connections take the current one.
    """

    def __init__(self, protocol: int) -> None:
        super().__init__(protocol)
        self._current: AuditingSSLContext | None = None

    def use(self, context: AuditingSSLContext) -> None:
        """Use a context for connections from now on; open connections keep theirs."""
        context.on_client_rejected = self._report
        self._current = context

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Return the TLS object of a new connection."""
        assert self._current is not None, "`use` comes first"
        return self._current.wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def _report(self, why: str) -> None:
        self.on_client_rejected(why)


class _Handshake(ssl.SSLObject):
    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            context = self.context
            assert isinstance(context, AuditingSSLContext)
            context.on_client_rejected(error.verify_message or str(error))
            raise


def _ignore(_: str) -> None:
    return
