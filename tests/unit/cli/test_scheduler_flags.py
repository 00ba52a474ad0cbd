# SPDX-License-Identifier: Apache-2.0
"""The flags of `kubeloop scheduler`."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kubeloop.cli.scheduler.flags import SchedulerOptions, add_flags, encode_config, options_of
from kubeloop.scheduler.config.file import SchedulerConfigError

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false, leaseDuration: 30s}
clientConnection: {kubeconfig: /etc/scheduler.conf, qps: 7}
podMaxBackoffSeconds: 5
profiles: [{schedulerName: mine}]
"""


def parse_options(*arguments: str) -> SchedulerOptions:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return options_of(parser.parse_args(arguments))


def test_defaults_match_kube_scheduler() -> None:
    found = parse_options().process
    assert (found.secure_port, found.leader_elect_resource_name) == (10259, "kube-scheduler")
    assert (found.kube_api_qps, found.kube_api_burst) == (50.0, 100)
    assert found.leader_elect
    assert parse_options().scheduler.queue_timeouts.pod_max_in_unschedulable == 300.0


def test_file_overrides_defaults_and_flags_override_the_file(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(FILE)
    found = parse_options("--config", str(path), "--kube-api-qps", "9")
    assert (found.process.leader_elect, found.process.leader_elect_lease_duration) == (False, 30.0)
    assert (found.process.kubeconfig, found.process.kube_api_qps) == ("/etc/scheduler.conf", 9.0)
    assert found.scheduler.queue_timeouts.pod_max_backoff == 5.0
    assert [one.scheduler_name for one in found.scheduler.profiles] == ["mine"]


def test_invalid_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("kind: Other")
    with pytest.raises(SchedulerConfigError, match=r"scheduler\.yaml"):
        parse_options("--config", str(path))


MUCH = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {renewDeadline: 7s, resourceName: other}
clientConnection: {burst: 11}
enableProfiling: false
podInitialBackoffSeconds: 3
profiles:
- schedulerName: mine
  plugins:
    score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit, weight: 5}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
extenders:
- {urlPrefix: "http://there", filterVerb: filter, enableHTTPS: true, managedResources: [{name: example.com/a}]}
"""


@pytest.mark.parametrize("file", ["", MUCH])
def test_written_configuration_round_trips(tmp_path: Path, file: str) -> None:
    first, again = tmp_path / "first.yaml", tmp_path / "again.yaml"
    first.write_text(file)
    said = parse_options("--config", str(first))
    again.write_bytes(encode_config(said))
    found = parse_options("--config", str(again))
    assert found.scheduler == said.scheduler
    assert found.process == said.process


def test_ineffective_fields_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("{percentageOfNodesToScore: 50, parallelism: 16}")
    found = parse_options("--config", str(path), "--vmodule=a=1", "--v=2")
    assert found.unused == ["--vmodule", "field percentageOfNodesToScore of the configuration"]
    assert parse_options().unused == []


def test_feature_gates_select_plugins() -> None:
    (usual,) = parse_options().scheduler.profiles
    assert "GangScheduling" not in usual.plugin_names
    (profile,) = parse_options("--feature-gates=GenericWorkload=true").scheduler.profiles
    assert profile.plugin_names == (*usual.plugin_names, "GangScheduling")
    gates = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
    (profile,) = parse_options(gates).scheduler.profiles
    assert profile.plugin_names[-2:] == ("TopologyPlacementGenerator", "PodGroupPodsCount")
    with pytest.raises(SchedulerConfigError, match="feature is locked to true"):
        parse_options("--feature-gates=NodeDeclaredFeatures=false")


def test_maximum_time_in_the_unschedulable_queue() -> None:
    found = parse_options("--pod-max-in-unschedulable-pods-duration", "1m")
    assert found.scheduler.queue_timeouts.pod_max_in_unschedulable == 60.0
