# SPDX-License-Identifier: Apache-2.0
"""Metrics of a client: one observer per server, called for every attempt; upstream's metric names are given."""

from __future__ import annotations

from typing import Protocol


class ClientMetrics(Protocol):
    """Observer of the calls to one server."""

    def request(self, method: str, code: str) -> None:
        """Count an attempt in `rest_client_requests_total`; the code is `<error>` without a response."""

    def duration(self, verb: str, seconds: float) -> None:
        """Observe `rest_client_request_duration_seconds`."""

    def sizes(self, verb: str, sent: int, received: int) -> None:
        """Observe `rest_client_request_size_bytes` and `rest_client_response_size_bytes`."""

    def rate_limiter_wait(self, verb: str, seconds: float) -> None:
        """Observe `rest_client_rate_limiter_duration_seconds`."""

    def retry(self, verb: str, code: str) -> None:
        """Count a retry in `rest_client_request_retries_total`."""


class NoClientMetrics:
    """Observer that discards everything."""

    def request(self, method: str, code: str) -> None:
        """Ignore the attempt."""

    def duration(self, verb: str, seconds: float) -> None:
        """Ignore the duration."""

    def sizes(self, verb: str, sent: int, received: int) -> None:
        """Ignore the sizes."""

    def rate_limiter_wait(self, verb: str, seconds: float) -> None:
        """Ignore the wait."""

    def retry(self, verb: str, code: str) -> None:
        """Ignore the retry."""
