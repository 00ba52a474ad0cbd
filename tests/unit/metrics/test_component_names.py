# SPDX-License-Identifier: Apache-2.0
"""The manager's, the scheduler's and the kubelet's metrics are upstream's; what is missing has a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.clock import SystemClock
from kubeloop.controllers import CONTROLLERS
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.kubelet.server.stats import StatsProvider
from kubeloop.metrics import MetricRegistry
from kubeloop.metrics.process import register_feature_metrics, register_process_metrics
from kubeloop.runtime.standard_metrics import RestClientMetrics, register_leader_election_metrics
from kubeloop.scheduler.dra.metrics import DeviceMetrics
from kubeloop.scheduler.podgroups.metrics import PodGroupMetrics
from kubeloop.scheduler.status.metrics import SchedulerMetrics
from kubeloop.testing import Cluster
from tests.metric_facts import differences, facts_of, missing

NO_FLAGS = "there are no flags to hide or disable metrics"
NO_FIFO = "an informer applies each batch of events at once: it has no queue to measure"
NO_GO = "belongs to client-go's transports and credential plugins"
SHARED = {
    "disabled_metrics_total": NO_FLAGS,
    "hidden_metrics_total": NO_FLAGS,
    "informer_processing_latency_seconds": "not counted yet",
    "informer_queued_items": NO_FIFO,
    "informer_store_resource_version": "not counted yet",
    "rest_client_dns_resolution_duration_seconds": NO_GO,
    "rest_client_exec_plugin_call_total": NO_GO,
    "rest_client_exec_plugin_certificate_rotation_age": NO_GO,
    "rest_client_exec_plugin_policy_call_total": NO_GO,
    "rest_client_exec_plugin_ttl_seconds": NO_GO,
    "rest_client_transport_ca_reload_total": NO_GO,
    "rest_client_transport_cache_entries": NO_GO,
    "rest_client_transport_cache_gc_calls_total": NO_GO,
    "rest_client_transport_cert_rotation_gc_calls_total": NO_GO,
    "rest_client_transport_create_calls_total": NO_GO,
}
STALE = "not counted yet: only the Job controller counts syncs that it skips"
MANAGER = SHARED | {
    "daemonset_controller_stale_sync_skips_total": STALE,
    "horizontal_pod_autoscaler_controller_stale_sync_skips_total": STALE,
    "replicaset_controller_stale_sync_skips_total": STALE,
    "retroactive_storageclass_errors_total": "not counted yet",
    "retroactive_storageclass_total": "not counted yet",
    "statefulset_controller_stale_sync_skips_total": STALE,
}
NO_BATCH = "equal pods share results by signature, without upstream's batches"
NO_ASYNC = "API calls are awaited; there is no dispatcher with a queue"
SCHEDULER = SHARED | {
    "kube_pod_resource_limit": "there is no /metrics/resources",
    "kube_pod_resource_request": "there is no /metrics/resources",
    "scheduler_async_api_call_execution_duration_seconds": NO_ASYNC,
    "scheduler_async_api_call_execution_total": NO_ASYNC,
    "scheduler_batch_attempts_total": NO_BATCH,
    "scheduler_batch_cache_flushed_total": NO_BATCH,
    "scheduler_batch_rescore_attempts_total": NO_BATCH,
    "scheduler_batch_rescore_duration_seconds": NO_BATCH,
    "scheduler_get_node_hint_duration_seconds": NO_BATCH,
    "scheduler_pending_async_api_calls": NO_ASYNC,
    "scheduler_pre_queueing_hint_evaluations_total": "the gate SchedulerPreQueueingHints has no effect",
    "scheduler_preemption_evaluation_duration_seconds": "not counted yet",
    "scheduler_preemption_execution_duration_seconds": "not counted yet",
    "scheduler_preemption_pdb_violations_total": "not counted yet",
    "scheduler_store_schedule_results_duration_seconds": NO_BATCH,
    "scheduler_volume_binder_cache_requests_total": "not counted yet",
    "scheduler_volume_scheduling_stage_error_total": "not counted yet",
}
# Registered by the running program: queues, caches and the manager of loops.
BY_PROGRAM = {"running_managed_controllers"}
BY_SCHEDULER = {
    *BY_PROGRAM,
    *("scheduler_cache_size", "scheduler_goroutines", "scheduler_inflight_events", "scheduler_pending_pods"),
    *("scheduler_queued_entities", "scheduler_unschedulable_pods"),
    *("workqueue_adds_total", "workqueue_depth", "workqueue_longest_running_processor_seconds"),
    *("workqueue_queue_duration_seconds", "workqueue_retries_total", "workqueue_unfinished_work_seconds"),
    "workqueue_work_duration_seconds",
}
NO_KUBELET_REGISTRY = "the simulated kubelet computes its pages from the nodes' state, without a registry"
KUBELET = {
    "disabled_metrics_total": NO_FLAGS,
    "hidden_metrics_total": NO_FLAGS,
    "kubelet_image_volume_mounted_errors_total": NO_KUBELET_REGISTRY,
    "kubelet_image_volume_mounted_succeed_total": NO_KUBELET_REGISTRY,
    "kubelet_image_volume_requested_total": NO_KUBELET_REGISTRY,
    "kubernetes_feature_enabled": "the kubelet has no feature gates",
    "prober_probe_total": "there is no /metrics/probes",
    "registered_metrics_total": NO_KUBELET_REGISTRY,
    "running_managed_controllers": "a kubelet runs no managed controllers",
    "storage_operation_duration_seconds": NO_KUBELET_REGISTRY,
    "volume_operation_total_seconds": NO_KUBELET_REGISTRY,
    "workqueue_adds_total": NO_KUBELET_REGISTRY,
    "workqueue_depth": NO_KUBELET_REGISTRY,
    "workqueue_longest_running_processor_seconds": NO_KUBELET_REGISTRY,
    "workqueue_queue_duration_seconds": NO_KUBELET_REGISTRY,
    "workqueue_retries_total": NO_KUBELET_REGISTRY,
    "workqueue_unfinished_work_seconds": NO_KUBELET_REGISTRY,
    "workqueue_work_duration_seconds": NO_KUBELET_REGISTRY,
}


def register_shared(registry: MetricRegistry) -> None:
    register_process_metrics(registry)
    register_feature_metrics(registry, {})
    register_leader_election_metrics(registry, "lease")
    RestClientMetrics(registry, "host")


def test_the_managers(cluster: Cluster) -> None:
    config = ManagerConfig(allocate_node_cidrs=True, cluster_cidr="10.244.0.0/16")
    context = replace(cluster.context, config=config, root_ca="some certificate")
    for one in CONTROLLERS:
        one.wire()(context.without_kinds())
    registry = context.telemetry.registry
    register_shared(registry)
    facts = facts_of("kube-controller-manager")
    assert differences(registry, facts) == []
    assert missing(registry, facts) == set(MANAGER) | BY_PROGRAM


def test_the_schedulers() -> None:
    registry = MetricRegistry()
    register_shared(registry)
    with_groups = parse_feature_gates(["GenericWorkload=true,TopologyAwareWorkloadScheduling=true"])
    PodGroupMetrics(registry, SchedulerMetrics(registry), with_groups)
    DeviceMetrics(registry)
    facts = facts_of("kube-scheduler")
    assert differences(registry, facts) == []
    assert missing(registry, facts) == set(SCHEDULER) | BY_SCHEDULER


def test_the_kubelets() -> None:
    provider = StatsProvider(lambda _: [], cast(Any, None), SystemClock())
    pages = "".join(
        getattr(provider, page)("n") for page in ("kubelet_metrics", "resource_metrics", "container_metrics")
    )
    found = {line.split()[2] for line in pages.splitlines() if line.startswith("# TYPE ")}
    assert set(facts_of("kubelet")) - found == set(KUBELET)
