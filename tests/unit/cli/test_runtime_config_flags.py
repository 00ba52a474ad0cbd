# SPDX-License-Identifier: Apache-2.0
"""The flags that say which versions of the API are served and which features are on."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging

import pytest

from kubeloop.api.features.effects import HONORED
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.server import ApiServerConfig, StartupError, start_server
from kubeloop.cli.apiserver.run_flags import run_options_of
from kubeloop.cli.flags.runtime_config import gates_of, resource_config_of, warn_ineffective_gates
from kubeloop.cli.main import parse_command
from kubeloop.clock import SystemClock
from kubeloop.http import Request


def parsed(command: str, *arguments: str) -> argparse.Namespace:
    return parse_command([command, *arguments])


@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_versions_and_features_are_enabled_by_flags(command: str) -> None:
    said = ("--runtime-config=scheduling.k8s.io/v1beta1=true", "--runtime-config", "batch/v1/cronjobs=false")
    gates = ("--feature-gates=GenericWorkload=true", "--feature-gates=StorageVersionAPI=true,DRADeviceTaintRules=false")
    options = parsed(command, *said, *gates)
    serving = resource_config_of(options)
    names = {one.plural for one in serving.resources}
    assert {"podgroups", "workloads", "jobs"} <= names
    assert "cronjobs" not in names
    assert gates_of(options) == ("GenericWorkload=true", "StorageVersionAPI=true", "DRADeviceTaintRules=false")


@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_defaults_apply_without_flags(command: str) -> None:
    assert resource_config_of(parsed(command)).resources is RESOURCES


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--feature-gates=NoSuchGate=true", "unrecognized feature gate: NoSuchGate"),
        ("--runtime-config=nobody/v1=true", "unknown api groups nobody/v1"),
    ],
)
def test_server_with_invalid_flags_does_not_start(flag: str, message: str) -> None:
    with pytest.raises(StartupError, match=message):
        resource_config_of(parsed("apiserver", flag))


def test_ineffective_gates_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        resource_config_of(parsed("up", "--feature-gates=WatchList=false,StorageVersionAPI=true"), *HONORED)
    assert caplog.messages == ["feature gate WatchList=false has no effect: the feature cannot be turned off"]


@pytest.mark.parametrize("component", HONORED)
def test_every_component_warns_about_gates_and_refuses_locked_ones(
    component: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        warn_ineffective_gates(("EventedPLEG=true",), component)
    assert caplog.messages == ["feature gate EventedPLEG=true has no effect: the simulated nodes have no such part"]
    with pytest.raises(StartupError, match="cannot set feature gate KubeletPSI to false, feature is locked to true"):
        warn_ineffective_gates(("KubeletPSI=false",), component)


def test_version_flag_sets_the_reported_version() -> None:
    async def scenario() -> None:
        run_options = run_options_of(parsed("apiserver", "--version=v1.37.0-custom.1+build"))
        server = await start_server(ApiServerConfig(port=0, run_options=run_options), SystemClock())
        body = server.app.nonresource.handle(Request("GET", "/version")).body
        assert isinstance(body, bytes)
        assert json.loads(body)["gitVersion"] == "v1.37.0-custom.1+build"
        await server.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("version", ["v1.36.0", "v1.37.1-custom", "v1.37.0_custom"])
def test_version_flag_rejects_another_release(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("apiserver", f"--version={version}")
    assert "must match major/minor/patch of v1.37.0" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--version", "--version=true", "--version=raw"])
def test_version_flag_prints_the_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parsed("apiserver", flag)
    assert exit_.value.code == 0
    assert "Kubernetes 1.37.0" in capsys.readouterr().out
