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


def told(*arguments: str) -> SchedulerOptions:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return options_of(parser.parse_args(arguments))


def test_defaults_are_kube_schedulers() -> None:
    found = told().process
    assert (found.secure_port, found.leader_elect_resource_name) == (10259, "kube-scheduler")
    assert (found.kube_api_qps, found.kube_api_burst) == (50.0, 100)
    assert found.leader_elect
    assert told().scheduler.patience.unschedulable == 300.0


def test_the_file_counts_more_than_defaults_and_flags_more_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(FILE)
    found = told("--config", str(path), "--kube-api-qps", "9")
    assert (found.process.leader_elect, found.process.leader_elect_lease_duration) == (False, 30.0)
    assert (found.process.kubeconfig, found.process.kube_api_qps) == ("/etc/scheduler.conf", 9.0)
    assert found.scheduler.patience.longest == 5.0
    assert [one.scheduler_name for one in found.scheduler.profiles] == ["mine"]


def test_a_file_that_can_not_be_followed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("kind: Other")
    with pytest.raises(SchedulerConfigError, match=r"scheduler\.yaml"):
        told("--config", str(path))


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
def test_what_is_written_can_be_read_again(tmp_path: Path, file: str) -> None:
    first, again = tmp_path / "first.yaml", tmp_path / "again.yaml"
    first.write_text(file)
    said = told("--config", str(first))
    again.write_bytes(encode_config(said))
    found = told("--config", str(again))
    assert found.scheduler == said.scheduler
    assert found.process == said.process


def test_what_makes_no_difference_is_told(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("{percentageOfNodesToScore: 50, parallelism: 16}")
    found = told("--config", str(path), "--vmodule=a=1", "--feature-gates=NodeDeclaredFeatures=false", "--v=2")
    assert found.unused == ["--feature-gates", "--vmodule", "percentageOfNodesToScore of the configuration"]
    assert told().unused == []


def test_what_would_be_less_safe_without_is_refused() -> None:
    assert told("--tls-cipher-suites=TLS_AES_128_GCM_SHA256").refused == ["--tls-cipher-suites"]


def test_how_long_a_pod_may_wait_for_a_reason() -> None:
    found = told("--pod-max-in-unschedulable-pods-duration", "1m")
    assert found.scheduler.patience.unschedulable == 60.0
