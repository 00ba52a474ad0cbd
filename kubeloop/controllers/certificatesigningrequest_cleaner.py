# SPDX-License-Identifier: Apache-2.0
"""Deletes certificate signing requests that are complete or will never be completed.

One hour after the certificate was issued, or the request denied or failed; when the certificate has expired; one day
after creation without a decision, and after approval without a certificate.

Watches: certificate signing requests.
Owns: nothing.
Writes: deletes requests.
Wakes itself: when a request expires.
Differs from upstream: deletes at that time, where upstream checks once an hour; requires the UID of the evaluated
request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.scalars.times import parse_time
from kubeloop.api.validation.certificates.pem import pem_blocks
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key

NAME: Final = "certificatesigningrequest-cleaner-controller"
WORKERS = 1  # as upstream
DECIDED_TTL: Final = timedelta(hours=1)
PENDING_TTL: Final = timedelta(hours=24)
CLOCK_RESOLUTION: Final = timedelta(seconds=1)  # times have whole seconds, and a request keeps all of its last one


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    requests = context.informers.for_resource(resource_of_class(CertificateSigningRequest))
    cleaner = CSRCleaner(context.client, requests, context.clock)
    controller: Controller[ObjectKey] = Controller(
        NAME, cleaner.reconcile, context.clock, workers=WORKERS, telemetry=context.telemetry
    )
    controller.watches(requests, own_key)
    return controller


class CSRCleaner:
    """Deletes expired requests by key."""

    def __init__(self, client: Client, requests: Informer, clock: Clock) -> None:
        self._client = client
        self._requests = requests
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Delete the request if it has expired, else wait until then."""
        request: CertificateSigningRequest | None = self._requests.get(*key)
        end = None if request is None else expiration_of(request)
        if request is None or end is None:
            return None
        left = (end + CLOCK_RESOLUTION - self._clock.now()).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        this_one = Preconditions(uid=request.metadata.uid)
        with suppress(Conflict, NotFound):
            await self._client.delete(CertificateSigningRequest, key.name, preconditions=this_one)
        return None


def expiration_of(request: CertificateSigningRequest) -> datetime | None:
    """Return the time at which a request expires; None if it is being deleted or has no times."""
    if request.metadata.deletion_timestamp is not None:
        return None
    return min(_ends(request), default=None)


def _ends(request: CertificateSigningRequest) -> Iterator[datetime]:
    issued = bool(request.status.certificate)
    if not request.status.conditions and request.metadata.creation_timestamp is not None:
        yield parse_time(request.metadata.creation_timestamp) + PENDING_TTL
    for one in request.status.conditions:
        if one.type == "Approved" and issued:
            expiry = expiry_of(request.status.certificate)
            if expiry is not None:
                yield expiry
        if one.last_update_time is None:
            continue
        if one.type in ("Denied", "Failed") or (one.type == "Approved" and issued):
            yield parse_time(one.last_update_time) + DECIDED_TTL
        elif one.type == "Approved":
            yield parse_time(one.last_update_time) + PENDING_TTL


def expiry_of(chain: bytes) -> datetime | None:
    """Return the expiry of the first certificate of a chain; None if it is unreadable."""
    block = next(pem_blocks(chain), None)
    if block is None:
        return None
    from cryptography import x509  # slow to load, so only when there is a certificate

    try:
        return x509.load_der_x509_certificate(block.content).not_valid_after_utc
    except ValueError:
        return None
