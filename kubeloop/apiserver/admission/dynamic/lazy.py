"""Watches the configurations of dynamic admission, and installs it in the chain once there are any.

As long as there are none, only the plugins run, and the modules of dynamic admission are not loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.background.offload import WorkerThread
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.store import StoreEvent, Subscription

if TYPE_CHECKING:
    from kubeloop.apiserver.admission.dynamic.chain import DynamicAdmission
    from kubeloop.apiserver.metrics import ApiServerMetrics

GROUP = "admissionregistration.k8s.io"
_PLURALS = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)


class LazyDynamicAdmission:
    """Subscription to the configurations, from the server's start to its end."""

    def __init__(
        self,
        registry: StorageRegistry,
        chain: AdmissionChain,
        authorizer: UnionAuthorizer,
        metrics: ApiServerMetrics,
        clock: Clock,
        aside: WorkerThread,
    ) -> None:
        self._registry = registry
        self._aside = aside
        self._chain = chain
        self._authorizer = authorizer
        self._metrics = metrics
        self._clock = clock
        self._configuration: DynamicAdmission | None = None
        self._subscriptions: list[Subscription] = []

    def start(self) -> None:
        """Subscribe to the configurations; load those that exist."""
        store = self._registry.store
        prefixes = [self._registry.named(GROUP, "v1", plural).prefix("") for plural in _PLURALS]
        if any(store.range(prefix, limit=1).records for prefix in prefixes):
            self._follow(())
        self._subscriptions = [store.subscribe(prefix, store.revision, self._follow) for prefix in prefixes]

    def close(self) -> None:
        """Cancel the subscriptions, and close dynamic admission if it was loaded."""
        for subscription in self._subscriptions:
            subscription.cancel()
        if self._configuration is not None:
            self._configuration.close()

    def _follow(self, _events: Sequence[StoreEvent]) -> None:
        if self._configuration is None:
            from kubeloop.apiserver.admission.dynamic.chain import DynamicAdmission

            self._configuration = DynamicAdmission(
                self._registry, self._chain, self._authorizer, self._clock, self._aside
            )
            self._metrics.also(self._configuration.metric_lines)
        self._configuration.changed()
