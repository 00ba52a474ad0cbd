# SPDX-License-Identifier: Apache-2.0
"""Clients of the controllers have upstream's rates."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeloop.cli.secure_port import clients
from kubeloop.client.config.server_config import ServerConfig
from kubeloop.clock import Clock, SystemClock
from kubeloop.controllers import CONTROLLERS
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.metrics import MetricRegistry


@pytest.mark.parametrize(
    ("controller", "rate"),
    [
        ("namespace-controller", (20.0 * 20, 30 * 100)),
        ("garbage-collector-controller", (20.0 * 2, 30)),
        ("job-controller", (20.0, 30)),
    ],
)
def test_rate_of_a_controller(
    controller: str, rate: tuple[float, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[float, int]] = []

    def bucket(qps: float, burst: int, clock: Clock) -> None:
        made.append((qps, burst))

    monkeypatch.setattr(clients, "TokenBucket", bucket)
    account = next(one.account for one in CONTROLLERS if one.name == controller)
    all_clients = clients.ControllerClients(
        ServerConfig("https://127.0.0.1:1"), ManagerConfig(), SystemClock(), MetricRegistry(), tmp_path
    )
    all_clients.controller_client(account)
    assert made == [rate]
