# SPDX-License-Identifier: Apache-2.0
"""Fields of KubeletConfiguration without an effect, and those that are refused because nothing enforces them. Pure.

docs/real-nodes.md shows both tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration

_CHAINS: Final = "no iptables chains are maintained"
_PROFILES: Final = "there are no Go profiles; use py-spy"
# Values other than the default are accepted with a warning.
NO_EFFECT: Final[Mapping[str, str]] = {
    "configMapAndSecretChangeDetectionStrategy": "contents are read again within a minute",
    "containerLogMaxWorkers": "one task rotates the logs",
    "contentType": "requests to the API server are JSON",
    "enableContentionProfiling": _PROFILES,
    "enableDebugFlagsHandler": "the log level is set by --v",
    "enableProfilingHandler": _PROFILES,
    "enableSystemLogHandler": "/logs is not served",
    "enableSystemLogQuery": "/logs is not served",
    "eventBurst": "equal events are aggregated instead",
    "eventRecordQPS": "equal events are aggregated instead",
    "hairpinMode": "the CNI plugin decides",
    "iptablesDropBit": _CHAINS,
    "iptablesMasqueradeBit": _CHAINS,
    "kernelMemcgNotification": "memory is measured every ten seconds",
    "kubeletCgroups": "the kubelet stays in its control group",
    "localStorageCapacityIsolation": "limits of local storage are always enforced",
    "makeIPTablesUtilChains": _CHAINS,
    "podCIDR": "it only applies without an API server",
    "showHiddenMetricsForVersion": "no metric is hidden",
    "streamingConnectionIdleTimeout": "idle streams are not closed",
    "systemCgroups": "processes stay in their control groups",
    "tracing": "OpenTelemetry is not supported",
    "volumePluginDir": "there are no flex volumes",
    "volumeStatsAggPeriod": "volumes are measured once a minute",
}
# Values other than the default are refused: pods, or the machine, would be less protected than the file says.
REFUSED: Final[Mapping[str, str]] = {
    "cgroupsPerQOS": "pods are always below control groups of their classes",
    "enableControllerAttachDetach": "only the controller attaches volumes",
    "qosReserved": "it is not enforced yet",
    "runOnce": "it is deprecated",
}


def refused_fields(config: KubeletConfiguration) -> list[str]:
    """Return why a configuration is refused."""
    return [
        f"field {name} can only have its default value in kubeloop: {REFUSED[name]}"
        for name in changed_fields(config)
        if name in REFUSED
    ]


def fields_without_effect(config: KubeletConfiguration) -> list[str]:
    """Return the fields that are set to no effect, each with the reason."""
    return [f"{name} ({NO_EFFECT[name]})" for name in changed_fields(config) if name in NO_EFFECT]


def changed_fields(config: KubeletConfiguration) -> dict[str, Any]:
    """Return the values of top-level fields that differ from their defaults, by their names in files."""
    known = KubeletConfiguration()
    fields = msgspec.structs.fields(KubeletConfiguration)
    return {
        one.encode_name: getattr(config, one.name)
        for one in fields
        if getattr(config, one.name) != getattr(known, one.name)
    }
