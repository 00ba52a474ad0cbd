# SPDX-License-Identifier: Apache-2.0
"""Configuration of the cloud controllers, with cloud-controller-manager's defaults; durations in seconds."""

from __future__ import annotations

import msgspec


class CloudConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Values of the flags: `concurrent_service_syncs` is `--concurrent-service-syncs`."""

    cluster_name: str = "kubernetes"
    cluster_cidr: str = ""
    configure_cloud_routes: bool = True
    route_reconciliation_period: float = 10.0
    node_monitor_period: float = 5.0
    node_status_update_frequency: float = 300.0
    concurrent_node_syncs: int = 1
    concurrent_node_status_updates: int = 0  # 0: as many as concurrent_node_syncs
    concurrent_node_lifecycle_syncs: int = 1
    concurrent_service_syncs: int = 1
    min_resync_period: float = 43200.0
