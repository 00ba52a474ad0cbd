# SPDX-License-Identifier: Apache-2.0
"""TLS contexts that report failed handshakes, and that can be replaced while a server listens.

The TLS library verifies certificates during the handshake, before there is a request to answer, and the event loop
drops the connection silently. The callbacks let the audit log record such clients, and count all failed handshakes.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

OnClientRejected = Callable[[str], None]  # called with the TLS library's reason


class AuditingSSLContext(ssl.SSLContext):
    """TLS context that calls `on_client_rejected` for each handshake that fails because of the client's certificate.

    `on_handshake_error` is called for every handshake that fails, also for one that the client ends early.
    """

    def __init__(self, protocol: int) -> None:
        self.sslobject_class = _Handshake
        self.on_client_rejected: OnClientRejected = _ignore
        self.on_handshake_error: Callable[[], None] = _ignore_error


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
        context.on_handshake_error = self._report_error
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

    def _report_error(self) -> None:
        self.on_handshake_error()


class _Handshake(ssl.SSLObject):
    _is_over = False  # it succeeded, or its failure has been reported

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
            self._is_over = True
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            context = self.context
            assert isinstance(context, AuditingSSLContext)
            if isinstance(error, ssl.SSLCertVerificationError):
                context.on_client_rejected(error.verify_message or str(error))
            self._report_error(context)
            raise

    def __del__(self) -> None:
        """Report a handshake that ended without an error of the TLS library: the client left, or was too slow."""
        context = self.context if hasattr(self, "_sslobj") else None  # it has none if its creation failed
        if not self._is_over and isinstance(context, AuditingSSLContext):
            self._report_error(context)

    def _report_error(self, context: AuditingSSLContext) -> None:
        self._is_over = True
        context.on_handshake_error()


def _ignore(_: str) -> None:
    return


def _ignore_error() -> None:
    return
