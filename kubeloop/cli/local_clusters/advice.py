# SPDX-License-Identifier: Apache-2.0
"""Advice for a user whose command found no cluster: which ones run on this machine, and how to start one."""

from __future__ import annotations

from kubeloop.cli.local_clusters.registry import ClusterRegistry
from kubeloop.client.errors import ConfigError, ConnectError


def explain_error(error: BaseException, registry: ClusterRegistry | None = None) -> str:
    """Return the message of a failed command; with advice if there is no connection."""
    message = str(error) or "timed out"
    if not isinstance(error, ConnectError | ConfigError):
        return message
    running = (registry or ClusterRegistry()).running()
    if not running:
        return f"{message}\nNo cluster is running on this machine. Start one with 'kubeloop up --detach'."
    shown = "\n".join(f"  export KUBECONFIG={one.kubeconfig}   # {one.name}, {one.server}" for one in running)
    return f"{message}\nRunning clusters on this machine:\n{shown}"
