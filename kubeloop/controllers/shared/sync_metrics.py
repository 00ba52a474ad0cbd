# SPDX-License-Identifier: Apache-2.0
"""Metrics for syncs of the certificate publishers: count, duration and result, under upstream's names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kubeloop.api.errors import ApiError
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.metrics import exponential_bounds

_BOUNDS: Final = exponential_bounds(0.001, 2, 15)

SyncFunc = Callable[[str], Awaitable[None]]


def with_sync_metrics(sync: SyncFunc, context: ControllerContext, subsystem: str) -> SyncFunc:
    """Wrap a sync function so that it counts each call by its result code."""
    registry, clock = context.telemetry.registry, context.clock
    total = registry.counter(f"{subsystem}_sync_total", "code")
    seconds = registry.histogram(
        f"{subsystem}_sync_duration_seconds", "code", bounds=_BOUNDS
    )  # fmt: skip

    async def counted(key: str) -> None:
        began, code = clock.monotonic(), "200"
        try:
            await sync(key)
        except Exception as error:
            code = str(error.code) if isinstance(error, ApiError) else "500"
            raise
        finally:
            total.with_labels(code).value += 1
            seconds.with_labels(code).observe(clock.monotonic() - began)

    return counted
