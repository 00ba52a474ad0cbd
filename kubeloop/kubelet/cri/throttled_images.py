# SPDX-License-Identifier: Apache-2.0
"""Image service that refuses pulls above a rate (`registryPullQPS`, `registryBurst`)."""

from __future__ import annotations

from kubeloop.clock import Clock
from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.streams import UNKNOWN, RpcError
from kubeloop.kubelet.cri.messages.image import PullImageRequest
from kubeloop.kubelet.cri.services import ImageService


class ThrottledImageService(ImageService):
    """Image service with a token bucket for pulls; a pull without a token fails, and its back-off follows."""

    def __init__(self, channel: UnixChannel, seconds: float, qps: float, burst: int, clock: Clock) -> None:
        super().__init__(channel, seconds)
        self._clock = clock
        self._qps, self._burst = qps, burst
        self._tokens, self._filled_at = float(burst), clock.monotonic()

    async def pull_image(self, request: PullImageRequest) -> str:
        """Pull an image if the rate allows it; returns its reference."""
        if not self._take():
            raise RpcError(UNKNOWN, "pull QPS exceeded")
        return await super().pull_image(request)

    def _take(self) -> bool:
        now = self._clock.monotonic()
        self._tokens = min(self._tokens + (now - self._filled_at) * self._qps, self._burst)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
