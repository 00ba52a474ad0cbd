# SPDX-License-Identifier: Apache-2.0
"""All metrics of one API server: its registry, and the groups that requests are counted in."""

from __future__ import annotations

from kubeloop.api.features.gates import Features, feature_states
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.metrics.certificates import CertificateMetrics
from kubeloop.apiserver.metrics.filters import AuthenticationMetrics, AuthorizationMetrics, FilterMetrics
from kubeloop.apiserver.metrics.requests import RequestMetrics
from kubeloop.apiserver.metrics.services import register_service_metrics
from kubeloop.apiserver.metrics.storage import StorageMetrics
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry
from kubeloop.metrics.process import register_feature_metrics, register_process_metrics


class ApiServerMetrics:
    """Metrics of one API server."""

    def __init__(
        self,
        storages: StorageRegistry,
        writes: InFlightLimiter,
        features: Features,
        registry: MetricRegistry,
        clock: Clock,
    ) -> None:
        self.registry = registry
        self.authentication = AuthenticationMetrics(registry)
        self.requests = RequestMetrics(registry, self.authentication, clock)
        self.authorization = AuthorizationMetrics(registry)
        self.filters = FilterMetrics(registry, self.authentication, self.authorization, features)
        self.storage = StorageMetrics(storages, registry)
        self._terminated_watches = registry.counter("apiserver_terminated_watchers_total", "group", "resource")
        executing = registry.gauge("apiserver_current_inflight_requests", "request_kind")
        executing.set_function(lambda: writes.executing, "mutating")
        queued = registry.gauge("apiserver_current_inqueue_requests", "request_kind")
        queued.set_function(lambda: writes.waiting, "mutating")
        registry.counter("apiserver_audit_event_total").with_labels()
        self.audit_rejections = registry.counter("apiserver_audit_requests_rejected_total").with_labels()
        self.tls_handshake_errors = registry.counter("apiserver_tls_handshake_errors_total").with_labels()
        self.log_tls_failures = registry.counter("kube_apiserver_pod_logs_backend_tls_failure_total").with_labels()
        self._certificates = CertificateMetrics(registry, storages.store)
        register_service_metrics(registry, storages)
        register_process_metrics(registry)
        register_feature_metrics(registry, feature_states(features))

    def count_terminated_watch(self, group: str, resource: str) -> None:
        """Count a watch that was closed because its client read too slowly."""
        self._terminated_watches.with_labels(group, resource).value += 1

    def close(self) -> None:
        """Cancel subscriptions to the store."""
        self._certificates.close()

    def render(self) -> bytes:
        """Return all metrics in Prometheus text format."""
        return self.registry.render().encode()
