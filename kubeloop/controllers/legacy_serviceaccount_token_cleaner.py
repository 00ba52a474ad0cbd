# SPDX-License-Identifier: Apache-2.0
"""Marks auto-generated service account tokens that were unused for a year as invalid, and later deletes them.

Watches: secrets of type `kubernetes.io/service-account-token`, service accounts, pods.
Owns: nothing.
Writes: marks secrets as invalid by a label; deletes those that have had it for the same period.
Wakes itself: every 24 hours.
Differs from upstream: caches only secrets of that type.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from kubeloop.api.errors import ApiError, Conflict, NotFound
from kubeloop.api.generated.core_v1 import ConfigMap, Pod, Secret, ServiceAccount
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.pods.references import iter_reference_names
from kubeloop.api.scalars.times import parse_time
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.serviceaccount_token import key_of_token, token_secrets
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "legacy-serviceaccount-token-cleaner-controller"
PERIOD = 24 * 3600.0
LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"
# ConfigMap in which API servers record since when they track uses.
TRACKING: Final = ("kube-apiserver-legacy-service-account-token-tracking", "kube-system")
DAY = "%Y-%m-%d"


def wire(context: ControllerContext) -> Controller[str]:
    """Build the controller; it only reads the informers, and is driven by time."""
    secrets = token_secrets(context)
    accounts = context.informers.for_resource(resource_of_class(ServiceAccount))
    pods = context.informers.for_resource(resource_of_class(Pod))
    period = timedelta(seconds=context.config.legacy_service_account_token_clean_up_period)
    cleaner = LegacyTokenCleaner(context.client, TokenCaches(secrets, accounts, pods), context.clock, period)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=NAME, registry=context.telemetry.registry)
    controller = Controller(
        NAME, cleaner.reconcile, context.clock, workers=1, queue=queue, telemetry=context.telemetry
    )  # fmt: skip
    for one in (secrets, accounts, pods):
        controller.require_synced(one)  # the controller is driven by time
    queue.add("tokens")
    return controller


class TokenCaches(NamedTuple):
    """Informers that the controller reads from."""

    secrets: Informer
    accounts: Informer
    pods: Informer

    def is_listed(self, secret: Secret) -> bool:
        """Return True if an existing account lists the secret: only such secrets are known to be auto-generated."""
        key = key_of_token(secret)
        account: ServiceAccount | None = self.accounts.get(key.namespace, key.account)
        if account is None or key.account_uid not in ("", account.metadata.uid):
            return False
        return any(one.name == key.name for one in account.secrets)

    def is_mounted(self, secret: Secret) -> bool:
        """Return True if a pod of the namespace uses the secret."""
        wanted = ("secrets", secret.metadata.name)
        return any(wanted in iter_reference_names(pod) for pod in self.pods.list(secret.metadata.namespace))


class LegacyTokenCleaner:
    """Marks and deletes unused tokens."""

    def __init__(self, client: Client, seen: TokenCaches, clock: Clock, period: timedelta) -> None:
        self._client = client
        self._seen = seen
        self._clock = clock
        self._period = period

    async def reconcile(self, _: str) -> Result:
        """Clean up once, if uses have been tracked for long enough, and repeat after the period."""
        now = self._clock.now()
        if await self._tracked_long_enough(now):
            await self._clean(now)
        return Result(requeue_after=PERIOD)

    async def _tracked_long_enough(self, now: datetime) -> bool:
        """Return True if the period has passed since the day after tracking began, so that unused tokens are known."""
        try:
            found = await self._client.get(ConfigMap, *TRACKING)
        except NotFound:
            return False  # uses are not tracked
        since = day_of(found.data.get("since", ""))
        return since is not None and now >= since + timedelta(days=1) + self._period

    async def _clean(self, now: datetime) -> None:
        """Handle each secret, regardless of failures of others."""
        horizon, errors = now - self._period, []
        for secret in self._seen.secrets.list():
            step = cleanup_action(secret, horizon)
            if step is None or not self._seen.is_listed(secret) or self._seen.is_mounted(secret):
                continue
            try:
                await (self._mark(secret, now) if step == "mark" else self._delete(secret))
            except (ApiError, ClientError) as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("failed to clean up unused tokens", errors)

    async def _mark(self, secret: Secret, now: datetime) -> None:
        meta = secret.metadata
        patch = {"metadata": {"uid": meta.uid, "labels": {INVALID_SINCE: now.strftime(DAY)}}}
        with suppress(Conflict, NotFound):
            await self._client.patch(Secret, meta.name, patch, meta.namespace)

    async def _delete(self, secret: Secret) -> None:
        """Delete the secret if it is unchanged; if it was used or changed meanwhile, it stays."""
        meta = secret.metadata
        this_one = Preconditions(resource_version=meta.resource_version)
        with suppress(Conflict, NotFound):
            await self._client.delete(Secret, meta.name, meta.namespace, preconditions=this_one)


def cleanup_action(secret: Secret, horizon: datetime) -> Literal["mark", "delete"] | None:
    """Return the action for an unreferenced secret that must not have been used since the horizon."""
    meta = secret.metadata
    if meta.deletion_timestamp is not None or meta.creation_timestamp is None:
        return None
    if parse_time(meta.creation_timestamp) >= horizon:
        return None
    last_day = midnight(horizon)
    if LAST_USED in meta.labels:
        used = day_of(meta.labels[LAST_USED])
        if used is None or used >= last_day:  # an unreadable day may be any day
            return None
    invalid_since = day_of(meta.labels.get(INVALID_SINCE, ""))
    if invalid_since is None:
        return "mark"
    return "delete" if invalid_since < last_day else None


def day_of(text: str) -> datetime | None:
    """Parse a day; None if the text is invalid."""
    try:
        return datetime.strptime(text, DAY).replace(tzinfo=UTC) if len(text) == len("2000-12-31") else None
    except ValueError:
        return None


def midnight(moment: datetime) -> datetime:
    """Return the beginning of the day in UTC."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
