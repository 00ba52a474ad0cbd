# SPDX-License-Identifier: Apache-2.0
"""Scheduler framework: the plugin interface and the profiles that run plugins.

config ──▶ registry (name ─▶ plugin class) ──▶ profile (plugins by extension point) ──▶ cycle, queue
plugin and per_node_plugin are the base classes; handle gives plugins the client, informers and nominator;
status holds the results of plugins (status, PreFilter result, diagnosis); normalize scales scores.
The names in `__all__` are public, for authors of plugins; the modules are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubeloop.scheduler.framework.handle import Handle
    from kubeloop.scheduler.framework.per_node_plugin import PerNodePlugin
    from kubeloop.scheduler.framework.plugin import (
        SKIP,
        ClusterEventWithHint,
        PermitWait,
        Plugin,
        PluginTimeLimitExceeded,
        PostFilterResult,
        error_status,
        unresolvable_status,
        unschedulable_status,
    )
    from kubeloop.scheduler.framework.status import Code, PreFilterResult, Status

__all__ = [
    "SKIP",
    "ClusterEventWithHint",
    "Code",
    "Handle",
    "PerNodePlugin",
    "PermitWait",
    "Plugin",
    "PluginTimeLimitExceeded",
    "PostFilterResult",
    "PreFilterResult",
    "Status",
    "error_status",
    "unresolvable_status",
    "unschedulable_status",
]

_MODULES = {"Code": "status", "Handle": "handle", "PerNodePlugin": "per_node_plugin"}
_MODULES |= {"PreFilterResult": "status", "Status": "status"}


def __getattr__(name: str) -> Any:
    """Import a name on first use: the framework's modules import each other, and numpy is loaded late."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'plugin')}"), name)
