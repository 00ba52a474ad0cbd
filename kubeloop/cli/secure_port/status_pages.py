# SPDX-License-Identifier: Apache-2.0
"""Status pages of a manager: controllers, leader and configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubeloop.api.features.gates import feature_states, parse_feature_gates
from kubeloop.apiserver.nonresource.health import Check
from kubeloop.cli.controller_manager.effective_flags import unused_flags
from kubeloop.cli.controller_manager.flags import flag_of
from kubeloop.cli.flags.values import flag_values
from kubeloop.cli.secure_port.server import ManagerStatus, configz_of
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.metrics import MetricRegistry
from kubeloop.metrics.process import register_feature_metrics, register_process_metrics
from kubeloop.runtime.leaderelection.leader_elector import LeaderElector
from kubeloop.runtime.manager import LoopManager


class StatusPages:
    """Pages of one manager; without an elector it always leads."""

    component = "kube-controller-manager"

    def __init__(
        self,
        manager: LoopManager,
        config: ManagerConfig,
        registry: MetricRegistry,
        identity: str,
        elector: LeaderElector | None = None,
    ) -> None:
        self._manager = manager
        self._config = config
        self._registry = registry
        self._identity = identity
        self._elector = elector
        register_process_metrics(registry)
        register_feature_metrics(registry, feature_states(parse_feature_gates(config.feature_gates)))
        self._live: dict[str, Check] = {"leaderElection": elector.health_error} if elector is not None else {}
        self._ready: dict[str, Check] = {name: _check_of(manager, name) for name in manager.names}

    def add_check(self, name: str, check: Check) -> None:
        """Add a readiness check."""
        self._ready[name] = check

    def checks(self) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
        """Return the liveness and readiness checks."""
        return self._live, self._ready

    def metrics(self) -> str:
        """Return the metrics as text."""
        return self._registry.render()

    def metrics_pages(self) -> Mapping[str, MetricRegistry]:
        """Return the metrics of other paths."""
        return self._registry.pages

    def configz(self) -> Mapping[str, Any]:
        """Return the configuration."""
        unused = [flag_of(name) for name in unused_flags(self._config)]
        return configz_of(self._config, self._manager.names, unused)

    def flags(self) -> Mapping[str, str]:
        """Return the values of the flags."""
        return flag_values(msgspec.structs.asdict(self._config))

    def status(self) -> ManagerStatus:
        """Return the status of the controllers."""
        elector = self._elector
        return ManagerStatus(
            identity=self._identity,
            leader=self._identity if elector is None else elector.leader,
            leading=elector is None or elector.is_leader,
            loops=self._manager.status(),
        )


def _check_of(manager: LoopManager, name: str) -> Check:
    return lambda: manager.health(name).reason
