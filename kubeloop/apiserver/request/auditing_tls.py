"""TLS contexts that tell when a client's certificate is refused.

The TLS library decides about certificates within the handshake, before there is a request that could be answered, and
the event loop drops the connection without a word. Whoever is turned away shall be heard of all the same.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

Refused = Callable[[str], None]  # given the reason, in the TLS library's words


class TellingContext(ssl.SSLContext):
    """Calls `refused` for each handshake that fails for the client's certificate."""

    def __init__(self, protocol: int) -> None:
        self.sslobject_class = _Handshake
        self.refused: Refused = _say_nothing


class _Handshake(ssl.SSLObject):
    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            assert isinstance(self.context, TellingContext)
            self.context.refused(error.verify_message or str(error))
            raise


def _say_nothing(_: str) -> None:
    return
