# SPDX-License-Identifier: Apache-2.0
"""The manager's, the scheduler's and the kubelet's metrics are upstream's; what is missing has a reason."""

from __future__ import annotations

from dataclasses import replace

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.api.generated.core_v1 import ConfigMapVolumeSource, Probe, TCPSocketAction, Volume
from kubeloop.api.kubelet_requests import NodeRequest
from kubeloop.controllers import CONTROLLERS
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.metrics import MetricRegistry
from kubeloop.metrics.process import register_feature_metrics, register_process_metrics
from kubeloop.runtime.informer.informer_metrics import InformerMetrics
from kubeloop.runtime.standard_metrics import RestClientMetrics, register_leader_election_metrics
from kubeloop.scheduler.dra.metrics import DeviceMetrics
from kubeloop.scheduler.plugins.volumes.volume_binding import register_volume_metrics
from kubeloop.scheduler.podgroups.metrics import PodGroupMetrics
from kubeloop.scheduler.status.metrics import SchedulerMetrics
from kubeloop.scheduler.status.pod_resources import register_pod_resources
from kubeloop.testing import Cluster, builders
from tests.metric_facts import differences, facts_of, missing

NO_FIFO = "an informer applies each batch of events at once: it has no queue to measure"
NO_GO = "belongs to client-go's transports and credential plugins"
SHARED = {
    "informer_queued_items": NO_FIFO,
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
MANAGER = SHARED | {
    "horizontal_pod_autoscaler_controller_stale_sync_skips_total": "a sync reads its target from the server, and no "
    "sync depends on a write that the cache may not show yet",
}
NO_BATCH = "equal pods share results by signature, without upstream's batches"
NO_ASYNC = "API calls are awaited; there is no dispatcher with a queue"
SCHEDULER = SHARED | {
    "scheduler_async_api_call_execution_duration_seconds": NO_ASYNC,
    "scheduler_async_api_call_execution_total": NO_ASYNC,
    "scheduler_batch_attempts_total": NO_BATCH,
    "scheduler_batch_cache_flushed_total": NO_BATCH,
    "scheduler_batch_rescore_attempts_total": NO_BATCH,
    "scheduler_batch_rescore_duration_seconds": NO_BATCH,
    "scheduler_get_node_hint_duration_seconds": NO_BATCH,
    "scheduler_pending_async_api_calls": NO_ASYNC,
    "scheduler_pre_queueing_hint_evaluations_total": "the gate SchedulerPreQueueingHints has no effect",
    "scheduler_store_schedule_results_duration_seconds": NO_BATCH,
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
KUBELET = {
    "kubernetes_feature_enabled": "the kubelet has no feature gates",
    "running_managed_controllers": "a kubelet runs no managed controllers",
}


def register_shared(registry: MetricRegistry) -> None:
    register_process_metrics(registry)
    register_feature_metrics(registry, {})
    register_leader_election_metrics(registry, "lease")
    RestClientMetrics(registry, "host")
    InformerMetrics(registry, "component")


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
    register_volume_metrics(registry)
    register_pod_resources(registry, lambda: ())
    resources = registry.page("/metrics/resources")
    facts = facts_of("kube-scheduler")
    assert differences(registry, facts) == differences(resources, facts) == []
    assert missing(registry, facts) - resources.names == set(SCHEDULER) | BY_SCHEDULER


def test_the_kubelets(cluster: Cluster) -> None:
    """Compare what the nodes of an agent serve while a pod with a probe and a volume runs."""
    agent = cluster.add_nodes(1)
    probe = Probe(tcp_socket=TCPSocketAction(port=80), period_seconds=1)
    cluster.add(builders.config_map("c"))
    volume = Volume(name="v", config_map=ConfigMapVolumeSource(name="c"))
    container = builders.container(readiness_probe=probe)
    cluster.add(builders.pod("p", node="n1", containers=(container,), volumes=(volume,)))
    cluster.advance(10)

    def page(path: str) -> str:
        response = cluster.run(agent.dialer.send_request("n1", NodeRequest(method="GET", path=path)))
        assert isinstance(response.body, bytes)
        return response.body.decode()

    pages = "".join(page(f"/metrics{one}") for one in ("", "/resource", "/cadvisor", "/probes"))
    kinds = {line.split()[2]: line.split()[3] for line in pages.splitlines() if line.startswith("# TYPE ")}
    facts = facts_of("kubelet")
    assert set(facts) - set(kinds) == set(KUBELET)
    assert [name for name in kinds if name in facts and kinds[name] != facts[name].kind] == []
    assert differences(agent.kubelet_metrics.registry, facts) == []
    assert 'container="app",namespace="default",pod="p"' in page("/metrics/probes")
