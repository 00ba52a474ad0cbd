"""What a client tells of itself: one observer a server, told of every attempt; upstream's metric names beside each."""

from __future__ import annotations

from typing import Protocol


class ClientMetrics(Protocol):
    """The observer, bound to one server's host by whoever makes it."""

    def request(self, method: str, code: str) -> None:
        """`rest_client_requests_total`: an attempt was answered; the code is `<error>` where no answer came."""

    def duration(self, verb: str, seconds: float) -> None:
        """`rest_client_request_duration_seconds`."""

    def sizes(self, verb: str, sent: int, received: int) -> None:
        """`rest_client_request_size_bytes`, `rest_client_response_size_bytes`."""

    def waited(self, verb: str, seconds: float) -> None:
        """`rest_client_rate_limiter_duration_seconds`."""

    def retry(self, verb: str, code: str) -> None:
        """`rest_client_request_retries_total`."""


class Unobserved:
    """Nobody listens."""

    def request(self, method: str, code: str) -> None: ...

    def duration(self, verb: str, seconds: float) -> None: ...

    def sizes(self, verb: str, sent: int, received: int) -> None: ...

    def waited(self, verb: str, seconds: float) -> None: ...

    def retry(self, verb: str, code: str) -> None: ...
