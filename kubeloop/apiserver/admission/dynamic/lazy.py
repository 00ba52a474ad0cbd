# SPDX-License-Identifier: Apache-2.0
"""Watches the configurations of dynamic admission, and installs it in the chain once there are any.

As long as there are none, only the plugins run, and the modules of dynamic admission are not loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.background.offload import WorkerThread
from kubeloop.apiserver.registry.lazy_subscription import LazySubscription
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock

if TYPE_CHECKING:
    from kubeloop.apiserver.admission.dynamic.chain import DynamicAdmission
    from kubeloop.metrics import MetricRegistry

GROUP = "admissionregistration.k8s.io"
_PLURALS = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)


class LazyDynamicAdmission(LazySubscription["DynamicAdmission"]):
    """Subscription to the configurations."""

    def __init__(
        self,
        registry: StorageRegistry,
        chain: AdmissionChain,
        authorizer: UnionAuthorizer,
        metrics: MetricRegistry,
        clock: Clock,
        aside: WorkerThread,
    ) -> None:
        prefixes = [registry.storage_named(GROUP, "v1", plural).prefix("") for plural in _PLURALS]
        super().__init__(registry.store, prefixes, self._make_dynamic_admission)
        self._registry = registry
        self._worker_thread = aside
        self._chain = chain
        self._authorizer = authorizer
        self._metrics = metrics
        self._clock = clock

    def _make_dynamic_admission(self) -> DynamicAdmission:
        from kubeloop.apiserver.admission.dynamic.chain import DynamicAdmission
        from kubeloop.apiserver.admission.dynamic.metrics import AdmissionMetrics

        metrics = AdmissionMetrics(self._metrics)
        return DynamicAdmission(
            self._registry, self._chain, self._authorizer, self._clock, self._worker_thread, metrics
        )
