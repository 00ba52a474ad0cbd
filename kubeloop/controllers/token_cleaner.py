# SPDX-License-Identifier: Apache-2.0
"""Deletes expired bootstrap tokens.

Watches: secrets of kube-system of type `bootstrap.kubernetes.io/token`.
Owns: nothing.
Writes: deletes secrets.
Wakes itself: when a token expires.
Differs from upstream: caches no other secrets.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.core_v1 import Secret
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.tokens.bootstrap_tokens import bootstrap_secrets, seconds_left
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "token-cleaner-controller"
QUEUE = "token_cleaner"  # upstream's queue name, as dashboards know it


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    secrets = bootstrap_secrets(context)
    cleaner = TokenCleaner(context.client, secrets, context.clock)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, cleaner.reconcile, context.clock, workers=1, queue=queue, telemetry=context.telemetry
    )  # fmt: skip
    controller.watches(secrets, own_key)
    return controller


class TokenCleaner:
    """Deletes expired tokens by key."""

    def __init__(self, client: Client, secrets: Informer, clock: Clock) -> None:
        self._client = client
        self._secrets = secrets
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Delete the token if it has expired, else wait until then."""
        secret: Secret | None = self._secrets.get(*key)
        left = None if secret is None else seconds_left(secret, self._clock.now())
        if secret is None or left is None:
            return None
        if left > 0:
            return Result(requeue_after=left)
        this_one = Preconditions(uid=secret.metadata.uid)
        with suppress(Conflict, NotFound):
            await self._client.delete(Secret, key.name, key.namespace, preconditions=this_one)
        return None
