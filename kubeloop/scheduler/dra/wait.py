# SPDX-License-Identifier: Apache-2.0
"""Waits until the devices of a pod's claims are ready for binding."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.clock import Clock
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import key_of
from kubeloop.scheduler.dra.binding_conditions import (
    DeviceBindingError,
    binding_deadline,
    binding_timeout_error,
    is_claim_ready,
)
from kubeloop.scheduler.dra.claim_attempt import ClaimAllocation


class DeviceBindingWaiter:
    """Checks readiness again whenever a claim has changed."""

    def __init__(self, claims: Informer, clock: Clock, patience: float) -> None:
        self._claims = claims
        self._clock = clock
        self._timeout_seconds = patience
        self._changed = asyncio.Event()
        wake = self._changed.set
        claims.add_handler(ResourceEventHandlerFuncs(lambda _: wake(), lambda _, __: wake(), lambda _: wake()))

    async def wait_until_ready(self, choice: ClaimAllocation) -> None:
        """Wait until all claims are ready. Raises `DeviceBindingError` if a device fails or times out."""
        latest = self._clock.now() + timedelta(seconds=self._timeout_seconds)
        while (claim := self._not_ready(choice)) is not None:
            self._changed.clear()
            deadline = min(latest, binding_deadline(claim, self._timeout_seconds) or latest)
            left = (deadline - self._clock.now()).total_seconds()
            if left <= 0:
                raise binding_timeout_error(claim)
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _not_ready(self, choice: ClaimAllocation) -> ResourceClaim | None:
        """Return the first claim that is not ready; written claims count until the informer has them."""
        for index, claim in enumerate(choice.claims):
            current = self._claims.get(*key_of(claim))
            uid = claim.metadata.uid
            if current is None and uid in choice.observed_uids:
                raise DeviceBindingError(f'resourceclaim.resource.k8s.io "{claim.metadata.name}" not found')
            if current is not None and (uid in choice.observed_uids or current.status.allocation is not None):
                choice.observed_uids.add(uid)
                choice.claims[index] = current
            if not is_claim_ready(choice.claims[index]):
                return choice.claims[index]
        return None
