# SPDX-License-Identifier: Apache-2.0
"""The API server's metrics are upstream's: names, types, labels, bounds; what is missing has a reason."""

from __future__ import annotations

from pathlib import Path

from tests.metric_facts import differences, facts_of, missing
from tests.unit.apiserver.metrics.live_plane import LivePlane, run_live_plane

NO_GO = "counts certificates that Go's TLS accepts by an exception; ours has none"
NO_CACHE = "reads come from the store's memory: there is no watch cache with a size, a start or a check of its own"
NO_ETCD_CALL = "counts calls of etcd's Go client; the store keeps one watch of etcd, and writes are etcd_request_*"
NO_CLIENT = "the API server does not call itself by HTTP; its calls of webhooks have metrics of their own"
NO_QUEUE = "the API server's own controllers are called by the store's events, without informers and queues"
NO_KMS_V1 = "of the cache of KMS v1, which upstream has deprecated and we do not have"
NO_CLOCK = "old and new objects are compared value by value in the course of validation, which reads no clock"

MISSING = {
    "apiextensions_apiserver_validation_ratcheting_seconds": NO_CLOCK,
    "apiserver_envelope_encryption_dek_cache_fill_percent": NO_KMS_V1,
    "apiserver_kube_aggregator_x509_insecure_sha1_total": NO_GO,
    "apiserver_kube_aggregator_x509_missing_san_total": NO_GO,
    "apiserver_storage_consistency_checks_total": NO_CACHE,
    "apiserver_storage_list_duration_seconds": NO_CACHE,
    "apiserver_validation_declarative_validation_mismatch_total": "there is one implementation of each rule",
    "apiserver_validation_declarative_validation_panic_total": "there is one implementation of each rule",
    "apiserver_validation_duplicate_validation_error_total": "there is one implementation of each rule",
    "apiserver_watch_cache_initialization_duration_seconds": NO_CACHE,
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
    "apiserver_watch_cache_read_wait_seconds": "the store is not shared with other servers",
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
