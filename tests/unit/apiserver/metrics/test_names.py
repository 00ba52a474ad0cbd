# SPDX-License-Identifier: Apache-2.0
"""The API server's metrics are upstream's: names, types, labels, bounds; what is missing has a reason."""

from __future__ import annotations

from pathlib import Path

from tests.metric_facts import differences, facts_of, missing
from tests.unit.apiserver.metrics.live_plane import LivePlane, run_live_plane

NO_GO = "counts certificates that Go's TLS accepts by an exception; ours has none"
NO_CACHE = "reads come from the store's memory: there is no watch cache with a size, a start or a check of its own"
NO_ETCD_CALL = "counts calls of etcd's Go client; the store keeps one watch of etcd, and writes are etcd_request_*"
NO_CLIENT = "the API server reads its own store and does not call itself by HTTP"
NO_QUEUE = "the API server's own controllers are called by the store's events, without informers and queues"
NO_KMS = "counts data keys for single objects (KMS v1); KMS v2 derives them from one seed for each key of the plugin"
NO_TIMING = "integrals over every nanosecond would cost each request several microseconds"
PER_REQUEST = "would be measured in every request, for a part of it that is a function call here"

MISSING = {
    "apiextensions_apiserver_validation_ratcheting_seconds": PER_REQUEST,
    "apiserver_envelope_encryption_dek_cache_fill_percent": NO_KMS,
    "apiserver_flowcontrol_demand_seats": NO_TIMING,
    "apiserver_flowcontrol_demand_seats_stdev": NO_TIMING,
    "apiserver_flowcontrol_priority_level_request_utilization": NO_TIMING,
    "apiserver_flowcontrol_priority_level_seat_utilization": NO_TIMING,
    "apiserver_flowcontrol_read_vs_write_current_requests": NO_TIMING,
    "apiserver_kube_aggregator_x509_insecure_sha1_total": NO_GO,
    "apiserver_kube_aggregator_x509_missing_san_total": NO_GO,
    "apiserver_nodeport_repair_reconcile_errors_total": "not counted yet",
    "apiserver_request_filter_duration_seconds": PER_REQUEST,
    "apiserver_request_timestamp_comparison_time": PER_REQUEST,
    "apiserver_storage_consistency_checks_total": NO_CACHE,
    "apiserver_storage_data_key_generation_duration_seconds": NO_KMS,
    "apiserver_storage_data_key_generation_failures_total": NO_KMS,
    "apiserver_storage_envelope_transformation_cache_misses_total": NO_KMS,
    "apiserver_storage_list_duration_seconds": NO_CACHE,
    "apiserver_tls_handshake_errors_total": "not counted yet: the HTTP layer does not see failed handshakes",
    "apiserver_validation_declarative_validation_mismatch_total": "there is one implementation of each rule",
    "apiserver_validation_declarative_validation_panic_total": "there is one implementation of each rule",
    "apiserver_validation_duplicate_validation_error_total": "there is one implementation of each rule",
    "apiserver_watch_cache_initialization_duration_seconds": NO_CACHE,
    "apiserver_watch_cache_read_wait_seconds": NO_CACHE,
    "apiserver_watch_events_dispatch_duration_seconds": "an event is encoded once for all watchers, in one step",
    "apiserver_webhooks_x509_insecure_sha1_total": NO_GO,
    "apiserver_webhooks_x509_missing_san_total": NO_GO,
    "etcd_bookmark_counts": NO_ETCD_CALL,
    "etcd_bookmark_total": NO_ETCD_CALL,
    "etcd_lease_object_counts": NO_ETCD_CALL,
    "grpc_client_handled_total": NO_ETCD_CALL,
    "grpc_client_msg_received_total": NO_ETCD_CALL,
    "grpc_client_msg_sent_total": NO_ETCD_CALL,
    "grpc_client_started_total": NO_ETCD_CALL,
    "informer_processing_latency_seconds": NO_QUEUE,
    "informer_queued_items": NO_QUEUE,
    "informer_store_resource_version": NO_QUEUE,
    "kube_apiserver_clusterip_allocator_allocation_duration_seconds": PER_REQUEST,
    "kube_apiserver_pod_logs_backend_tls_failure_total": "a failed handshake with a kubelet is not told from others",
    "rest_client_exec_plugin_certificate_rotation_age": NO_CLIENT,
    "rest_client_exec_plugin_ttl_seconds": NO_CLIENT,
    "rest_client_request_duration_seconds": NO_CLIENT,
    "rest_client_request_size_bytes": NO_CLIENT,
    "rest_client_requests_total": NO_CLIENT,
    "rest_client_response_size_bytes": NO_CLIENT,
    "rest_client_transport_cache_entries": NO_CLIENT,
    "rest_client_transport_cert_rotation_gc_calls_total": NO_CLIENT,
    "rest_client_transport_create_calls_total": NO_CLIENT,
    "watch_cache_capacity": NO_CACHE,
    "watch_cache_capacity_decrease_total": NO_CACHE,
    "watch_cache_capacity_increase_total": NO_CACHE,
    "workqueue_adds_total": NO_QUEUE,
    "workqueue_depth": NO_QUEUE,
    "workqueue_longest_running_processor_seconds": NO_QUEUE,
    "workqueue_queue_duration_seconds": NO_QUEUE,
    "workqueue_retries_total": NO_QUEUE,
    "workqueue_unfinished_work_seconds": NO_QUEUE,
    "workqueue_work_duration_seconds": NO_QUEUE,
}
# Registered, and without samples in the traffic below.
WITHOUT_SAMPLES = {
    "apiserver_selfrequest_total": "nobody is system:apiserver",
    "authentication_token_cache_fetch_total": "no other server is asked about tokens",
    "authentication_token_cache_request_duration_seconds": "no other server is asked about tokens",
    "authentication_token_cache_request_total": "no other server is asked about tokens",
    "apiserver_stream_translator_requests_total": "no node to run a command on",
    "apiserver_websocket_streaming_requests_total": "no node to run a command on",
    "etcd_request_errors_total": "no write failed",
    "kube_apiserver_pod_logs_insecure_backend_total": "no node to read a log from",
}


def sampled(text: str) -> set[str]:
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}


def test_what_is_missing_has_a_reason_and_the_rest_is_as_upstreams(tmp_path: Path) -> None:
    facts = facts_of("kube-apiserver")

    async def scenario(env: LivePlane) -> None:
        await env.cause_traffic()
        registry = env.app.metrics.registry
        assert missing(registry, facts) == set(MISSING)
        assert differences(registry, facts) == []
        found = sampled(await env.metrics())
        assert set(facts) - found - set(MISSING) == set(WITHOUT_SAMPLES)

    run_live_plane(tmp_path, scenario)
