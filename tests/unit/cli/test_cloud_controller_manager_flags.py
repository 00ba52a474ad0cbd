# SPDX-License-Identifier: Apache-2.0
"""The flags of `kubeloop cloud-controller-manager`."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kubeloop.cli.cloud_controller_manager.flags import CloudControllerManagerOptions, add_flags, options_of
from kubeloop.cli.controller_manager.flags import ManagerConfigError
from kubeloop.cloud.config import CloudConfig


def parse_options(*arguments: str) -> CloudControllerManagerOptions:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return options_of(parser.parse_args(arguments))


def test_defaults_match_upstream() -> None:
    found = parse_options()
    assert (found.process.secure_port, found.process.leader_elect_resource_name) == (10258, "cloud-controller-manager")
    assert (found.process.kube_api_qps, found.process.kube_api_burst) == (20.0, 30)
    assert found.process.leader_elect
    assert found.cloud == CloudConfig()


def test_controllers_get_the_flags_of_both_managers() -> None:
    found = parse_options(
        "--cluster-name=c", "--cluster-cidr=10.244.0.0/16", "--configure-cloud-routes=false",
        "--route-reconciliation-period=1m", "--node-monitor-period=7s", "--node-status-update-frequency=2m",
        "--concurrent-service-syncs=3", "--concurrent-node-syncs=4",
    ).cloud  # fmt: skip
    assert found == CloudConfig(
        cluster_name="c",
        cluster_cidr="10.244.0.0/16",
        configure_cloud_routes=False,
        route_reconciliation_period=60.0,
        node_monitor_period=7.0,
        node_status_update_frequency=120.0,
        concurrent_service_syncs=3,
        concurrent_node_syncs=4,
    )


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--concurrent-node-syncs=0", "concurrent-node-syncs must be a positive number"),
        ("--concurrent-node-status-updates=-1", "concurrent-node-status-updates cannot be a negative number"),
        ("--concurrent-node-lifecycle-syncs=0", "concurrent-node-lifecycle-syncs must be at least 1, but got 0"),
        ("--concurrent-service-syncs=0", "concurrent-service-syncs must be a positive number"),
        ("--enable-leader-migration", "--enable-leader-migration is not supported yet"),
        ("--webhooks=mine", "--webhooks is not supported yet"),
    ],
)
def test_unsupported_options_are_rejected(flag: str, message: str) -> None:
    with pytest.raises(ManagerConfigError, match=message):
        parse_options(flag)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManagerConfigError, match="no such file"):
        parse_options(f"--cloud-config={tmp_path / 'cloud.yaml'}")
