# SPDX-License-Identifier: Apache-2.0
"""Availability controller: checks one extension API server, and reads its discovery and OpenAPI documents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from kubeloop.apiserver.aggregator.availability import (
    PASSED,
    AvailableCondition,
    failed_discovery,
    unavailable_condition,
)
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.aggregator.discovery_cache import RemoteDocumentReader, RemoteVersion
from kubeloop.apiserver.aggregator.remote import RemoteAPIServer
from kubeloop.apiserver.aggregator.service_resolver import ServiceResolver

log = logging.getLogger(__name__)

# Seconds between checks: constant while the server answers, with exponential backoff while it fails.
_LOOK_SECONDS = 30.0
_FIRST_RETRY_SECONDS = 0.25
# Some of many endpoints may be down: one successful attempt of this many suffices.
_ATTEMPTS = 5


class AvailabilityController:
    """Task that checks one remote; woken by changes of its Service, and periodically."""

    def __init__(
        self,
        remote: RemoteAPIServer,
        resolver: ServiceResolver,
        report: Callable[[str, AvailableCondition], None],
        changed: Callable[[], None],
    ) -> None:
        assert remote.api.spec.service is not None, "a local APIService is not monitored"
        self.remote = remote
        self.namespace = remote.api.spec.service.namespace
        self._service_resolver = resolver
        self._report_condition = report
        self._on_change = changed
        self._reader = RemoteDocumentReader()
        self.version: RemoteVersion = self._reader.cached_version(remote, fresh=False)
        self._woken = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"of {remote.api.metadata.name}")

    def wake(self) -> None:
        """Trigger a check now."""
        self._woken.set()

    def close(self) -> None:
        """Cancel the task, and close the remote's connections."""
        self._task.cancel()
        self.remote.close()

    async def _run(self) -> None:
        pause = _FIRST_RETRY_SECONDS
        while True:
            self._woken.clear()
            passed = False
            try:
                passed = await self._sync()
            except Exception:  # an unexpected failure of one check must not end the task
                log.exception("availability check of %s failed", self.remote.api.metadata.name)
            pause = _FIRST_RETRY_SECONDS if passed else min(2 * pause, _LOOK_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS if passed else pause):
                    await self._woken.wait()

    async def _sync(self) -> bool:
        verdict = await self._check_availability()
        passed = verdict is PASSED
        # Discovery is read first: a client that waits for the condition then finds the resources.
        version = (
            await self._reader.read(self.remote) if passed else self._reader.cached_version(self.remote, fresh=False)
        )
        if version != self.version:
            self.version = version
            self._on_change()
        self._report_condition(self.remote.api.metadata.name, verdict)
        return passed

    async def _check_availability(self) -> AvailableCondition:
        api = self.remote.api
        assert api.spec.service is not None, "a local APIService is not monitored"
        where = api.spec.service.namespace, api.spec.service.name
        found = unavailable_condition(
            api, self._service_resolver.service(*where), self._service_resolver.slices(*where)
        )
        if found is not None:
            return found
        why = ""
        for _ in range(_ATTEMPTS if len(self._service_resolver.slices(*where)) else 1):
            try:
                await self.remote.check()
            except RemoteUnreachable as error:
                why = str(error)
            else:
                return PASSED
        return failed_discovery(why)
