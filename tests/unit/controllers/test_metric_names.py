# SPDX-License-Identifier: Apache-2.0
"""The loops' metrics are called what kube-controller-manager's are, so that its dashboards show ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.controllers import CONTROLLERS, attach_detach, persistentvolume_binder, root_ca_certificate_publisher
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.metrics import MetricRegistry
from kubeloop.testing import Cluster, namespace
from tests.controllers.storage import NS, claim, user_of, volume

# Of upstream's, by what comes in front of each.
NAMES = {
    "attach_detach_controller_attachdetach_controller": "forced_detaches",
    "attachdetach_controller": "total_volumes",
    "clustertrustbundle_publisher": "sync_duration_seconds sync_total",
    "cronjob_controller": "job_creation_skew_duration_seconds",
    "device_taint_eviction_controller": "pod_deletion_duration_seconds pod_deletions_total",
    "dynamic_resource_allocation": "resource_claims resourceclaim_creates_total",
    "endpoint_slice_controller": (
        "changes desired_endpoint_slices endpoints_added_per_sync endpoints_desired endpoints_removed_per_sync "
        "endpointslices_changed_per_sync num_endpoint_slices services_count_by_traffic_distribution syncs"
    ),
    "endpoint_slice_mirroring_controller": (
        "addresses_skipped_per_sync changes desired_endpoint_slices endpoints_added_per_sync endpoints_desired "
        "endpoints_removed_per_sync endpoints_sync_duration endpoints_updated_per_sync num_endpoint_slices"
    ),
    "ephemeral_volume_controller": "create_failures_total create_total",
    "garbagecollector_controller": "resources_sync_error_total",
    "horizontal_pod_autoscaler_controller": (
        "desired_replicas metric_computation_duration_seconds metric_computation_total "
        "num_horizontal_pod_autoscalers reconciliation_duration_seconds reconciliations_total"
    ),
    "job_controller": (
        "job_finished_indexes_total job_pods_creation_total job_pods_finished_total job_sync_duration_seconds "
        "job_syncs_total jobs_by_external_controller_total jobs_finished_total "
        "pod_failures_handled_by_failure_policy_total stale_sync_skips_total terminated_pods_tracking_finalizer_total"
    ),
    "node_collector": (
        "evictions_total unhealthy_nodes_in_zone update_all_nodes_health_duration_seconds "
        "update_node_health_duration_seconds zone_health zone_size"
    ),
    "node_ipam_controller": (
        "cidrset_allocation_tries_per_request cidrset_cidrs_allocations_total cidrset_cidrs_releases_total "
        "cidrset_usage_cidrs cirdset_max_cidrs"
    ),
    "pod_gc_collector": "force_delete_pod_errors_total force_delete_pods_total",
    "pv_collector": "bound_pv_count bound_pvc_count total_pv_count unbound_pv_count unbound_pvc_count",
    "retroactive": "storageclass_errors_total storageclass_total",
    "daemonset_controller": "stale_sync_skips_total",
    "replicaset_controller": "sorting_deletion_age_ratio stale_sync_skips_total",
    "statefulset_controller": "stale_sync_skips_total",
    "root_ca_cert_publisher": "sync_duration_seconds sync_total",
    "selinux_warning_controller": "selinux_volume_conflict",
    "statefulset_controller_statefulset": "max_unavailable unavailable_replicas",
    "storage": "count_attachable_volumes_in_use operation_duration_seconds",
    "taint_eviction_controller": "pod_deletion_duration_seconds pod_deletions_total",
    "ttl_after_finished_controller": "job_deletion_duration_seconds",
    "volume_operation": "errors_total total_errors",
    "workqueue": (
        "adds_total depth longest_running_processor_seconds queue_duration_seconds retries_total "
        "unfinished_work_seconds work_duration_seconds"
    ),
}
# controller-runtime's names, known to operator authors.
OUR_OWN = (
    "active_workers max_concurrent_reconciles reconcile_errors_total reconcile_time_seconds reconcile_timeouts_total "
    "reconcile_total terminal_reconcile_errors_total"
)


def names() -> Iterator[str]:
    for front, rest in {**NAMES, "controller_runtime": OUR_OWN}.items():
        yield from (f"{front}_{one}" for one in rest.split())


def test_metric_names_match_upstream(cluster: Cluster) -> None:
    config = ManagerConfig(allocate_node_cidrs=True, cluster_cidr="10.244.0.0/16")
    context = replace(cluster.context, config=config, root_ca="some certificate")
    for one in CONTROLLERS:
        one.wire()(context.without_kinds())
    found = {one for one in context.telemetry.registry.names if not one.startswith("resourcepoolstatusrequest_")}
    assert found == set(names())


def shown(cluster: Cluster, start: str) -> list[str]:
    registry: MetricRegistry = cluster.context.telemetry.registry
    return [line for line in registry.render().splitlines() if line.startswith(start)]


def test_volumes_and_claims_are_counted_by_class(cluster: Cluster) -> None:
    cluster.start(persistentvolume_binder.wire)
    cluster.add(volume("v1", hostPath={"path": "/v1"}), volume("v2"), claim("c1"), claim("c2"), claim("c3"))
    cluster.settle()
    bound = [one.status.phase for one in cluster.client.list(PersistentVolume).items]
    assert bound == ["Bound", "Bound"]
    assert {one.status.phase for one in cluster.client.list(PersistentVolumeClaim).items} == {"Bound", "Pending"}
    assert shown(cluster, "pv_collector") == [
        'pv_collector_bound_pv_count{storage_class="slow"} 2',
        f'pv_collector_bound_pvc_count{{namespace="{NS}",storage_class="slow",volume_attributes_class=""}} 2',
        'pv_collector_total_pv_count{plugin_name="kubernetes.io/host-path",volume_mode="Filesystem"} 2',
        f'pv_collector_unbound_pvc_count{{namespace="{NS}",storage_class="slow",volume_attributes_class=""}} 1',
    ]


def test_attached_volumes_are_counted_by_driver(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.start(attach_detach.wire)
    made = cluster.add(claim("c", volumeName="v"))
    reference = {"namespace": NS, "name": "c", "uid": made.metadata.uid}
    csi = {"driver": "d.example.com", "volumeHandle": "h"}
    cluster.add(volume("v", hostPath=None, csi=csi, claimRef=reference))
    cluster.client.patch(PersistentVolumeClaim, "c", {"status": {"phase": "Bound"}}, NS, subresource="status")
    cluster.add(user_of("p", "c", node="n1"))
    cluster.settle()
    of = 'plugin_name="kubernetes.io/csi:d.example.com"'
    assert shown(cluster, "attachdetach_controller_total_volumes") == [
        f'attachdetach_controller_total_volumes{{{of},state="actual_state_of_world"}} 1',
        f'attachdetach_controller_total_volumes{{{of},state="desired_state_of_world"}} 1',
    ]
    assert shown(cluster, "storage_count") == [
        'storage_count_attachable_volumes_in_use{node="n1",volume_plugin="kubernetes.io/csi:d.example.com"} 1'
    ]


@pytest.mark.parametrize(("fails", "code"), [(False, "200"), (True, "503")])
def test_syncs_are_counted_by_result(cluster: Cluster, fails: bool, code: str) -> None:
    cluster.start(lambda context: root_ca_certificate_publisher.wire(replace(context, root_ca="some certificate")))
    if fails:
        cluster.faults.fail("create", "configmaps")
    cluster.client.create(namespace("new"))
    cluster.settle()
    assert any(f'code="{code}"' in line for line in shown(cluster, "root_ca_cert_publisher_sync_total"))
