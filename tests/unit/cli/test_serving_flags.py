"""The flags that say which versions of the API are served and which features are on."""

from __future__ import annotations

import argparse
import logging

import pytest

from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.apiserver.flags import add_command as add_apiserver
from kubeloop.cli.flags.runtime_config import gates_of, resource_config_of
from kubeloop.cli.up.flags import add_command as add_up


def parsed(command: str, *arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    add_apiserver(commands)
    add_up(commands)
    return parser.parse_args([command, *arguments])


@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_versions_and_features_are_asked_for(command: str) -> None:
    said = ("--runtime-config=scheduling.k8s.io/v1beta1=true", "--runtime-config", "batch/v1/cronjobs=false")
    gates = ("--feature-gates=GenericWorkload=true", "--feature-gates=StorageVersionAPI=true,DRADeviceTaintRules=false")
    options = parsed(command, *said, *gates)
    serving = resource_config_of(options)
    names = {one.plural for one in serving.resources}
    assert {"podgroups", "workloads", "jobs"} <= names
    assert "cronjobs" not in names
    assert gates_of(options) == ("GenericWorkload=true", "StorageVersionAPI=true", "DRADeviceTaintRules=false")


@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_without_them_everything_is_as_usual(command: str) -> None:
    assert resource_config_of(parsed(command)).resources is RESOURCES


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--feature-gates=NoSuchGate=true", "unrecognized feature gate: NoSuchGate"),
        ("--runtime-config=nobody/v1=true", "unknown api groups nobody/v1"),
    ],
)
def test_a_server_that_was_told_nonsense_does_not_start(flag: str, message: str) -> None:
    with pytest.raises(StartupError, match=message):
        resource_config_of(parsed("apiserver", flag))


def test_gates_that_change_nothing_here_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        resource_config_of(parsed("up", "--feature-gates=WatchList=false,GenericWorkload=true"))
    assert caplog.messages == ["feature gates that change nothing in kubeloop: WatchList"]
