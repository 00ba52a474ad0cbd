# SPDX-License-Identifier: Apache-2.0
"""Stream response that is observed while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kubeloop.http import ResponseStream, StreamResponse


class ObservedStream(StreamResponse):
    """Stream response that calls `begin` when it starts, and the function that `begin` returned at its end."""

    __slots__ = ("_begin", "_inner")

    def __init__(self, inner: StreamResponse, begin: Callable[[], Callable[[], None]]) -> None:
        super().__init__(inner.status, inner.body, inner.content_type, inner.headers)
        self._inner = inner
        self._begin = begin

    def run(self, stream: ResponseStream) -> Awaitable[None] | None:
        """Run the inner response."""
        stream.on_close(self._begin())
        return self._inner.run(stream)
