# SPDX-License-Identifier: Apache-2.0
"""Creates a service account named `default` in every active namespace, which pods there require.

Watches: namespaces; service accounts named `default`, for their deletion.
Owns: nothing; the accounts belong to the namespace.
Writes: creates service accounts.
Wakes itself: never.
Differs from upstream: caches only the names of these accounts.
"""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import Forbidden
from kubeloop.api.generated.core_v1 import Namespace, ServiceAccount
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.ownership.namespaces import is_active, is_terminating
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "serviceaccount-controller"
QUEUE = "serviceaccount"  # upstream's queue name, as dashboards know it
ACCOUNT = "default"
WORKERS = 1  # as upstream


def wire(context: ControllerContext) -> Controller[str]:
    """Build the controller and register its event handlers."""
    namespaces = context.informers.for_resource(resource_of_class(Namespace))
    accounts = context.informers.for_resource(
        resource_of_class(ServiceAccount), fields=f"metadata.name={ACCOUNT}", metadata_only=True
    )
    reconciler = Reconciler(context.client, namespaces, accounts)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(namespaces, lambda namespace: (namespace.metadata.name,), _is_there)
    controller.watches(accounts, lambda account: (account.metadata.namespace,), _is_gone)
    return controller


class Reconciler:
    """Creates service accounts by namespace."""

    def __init__(self, client: Client, namespaces: Informer, accounts: Informer) -> None:
        self._client = client
        self._namespaces = namespaces
        self._accounts = accounts

    async def reconcile(self, key: str) -> None:
        """Create the account of one namespace if it is missing."""
        namespace = self._namespaces.get("", key)
        if not needs_account(namespace, self._accounts.get(key, ACCOUNT)):
            return
        try:
            await self._client.create(ServiceAccount(metadata=ObjectMeta(name=ACCOUNT, namespace=key)))
        except Forbidden as error:
            if not is_terminating(error):
                raise


def needs_account(namespace: Namespace | None, account: Any) -> bool:
    """Return True if the account is missing and the namespace is active."""
    return account is None and is_active(namespace)


def _is_there(_: Any, new: Any) -> bool:
    return new is not None


def _is_gone(_: Any, new: Any) -> bool:
    return new is None
