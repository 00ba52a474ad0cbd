# SPDX-License-Identifier: Apache-2.0
"""Status pages of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubeloop.apiserver.nonresource.health import Check
from kubeloop.cli.secure_port.status_pages import StatusPages
from kubeloop.scheduler.components import NAME


class SchedulerStatusPages(StatusPages):
    """Status pages, with checks and configuration under the scheduler's own names."""

    component = NAME

    def checks(self) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
        """Return the liveness and readiness checks."""

        def healthy() -> str:
            return self._manager.health(NAME).reason

        sync = {"sched-handler-sync": healthy, "informer-sync": healthy}
        return self._live, {**self._live, "shutdown": lambda: "", **sync}

    def flags(self) -> Mapping[str, str]:
        """Return the values of the scheduler's flags."""
        from kubeloop.cli.scheduler.flags import SHARED  # `kubeloop up` needs no scheduler configuration to start

        return {name: value for name, value in super().flags().items() if name.replace("-", "_") in SHARED}

    def configz(self) -> Mapping[str, Any]:
        """Return the configuration."""
        return {"kubescheduler.config.k8s.io": msgspec.to_builtins(self._config)}
