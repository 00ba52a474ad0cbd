# SPDX-License-Identifier: Apache-2.0
"""Image pulls above the rate of `registryPullQPS`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.messages.image import PullImageRequest, PullImageResponse
from kubeloop.kubelet.cri.throttled_images import ThrottledImageService
from tests.unit.kubelet.cri.gc.test_image_gc import FakeClock


class Channel:
    async def invoke(self, method: str, request: Any, response: Any, seconds: float) -> PullImageResponse:
        return PullImageResponse(image_ref="sha256:1")


def test_pulls_above_the_rate_fail_until_there_are_tokens() -> None:
    clock, channel = FakeClock(), Channel()
    images = ThrottledImageService(channel, 1.0, 0.5, 2, clock)  # type: ignore[arg-type]  # a part of the channel

    def pull() -> str:
        return asyncio.run(images.pull_image(PullImageRequest()))

    assert [pull(), pull()] == ["sha256:1"] * 2
    with pytest.raises(RpcError, match="pull QPS exceeded"):
        pull()
    clock.seconds += 1.5
    with pytest.raises(RpcError, match="pull QPS exceeded"):
        pull()
    clock.seconds += 0.5
    assert pull() == "sha256:1"
