# SPDX-License-Identifier: Apache-2.0
"""Kubelet flags without an implementation: accepted with one value, accepted without effect, or rejected.

Each has a reason, which docs/flags.md shows. Flags of configuration fields are in
`kubeloop.kubelet.config.unsupported_fields`; all others work.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class OnlyFlagValue(NamedTuple):
    """Values that describe what kubeloop does; any other one is rejected."""

    values: tuple[str, ...]
    reason: str


_IMMEDIATE: Final = "log lines are written at once"
_KEPT: Final = "one dead container of each name is kept; thresholds of evictions remove more"
ONLY_VALUE: Final = {
    "experimental-allocatable-ignore-eviction": OnlyFlagValue(
        ("false",), "deprecated: thresholds of evictions are reserved"
    ),
    "experimental-mounter-path": OnlyFlagValue(("",), "deprecated: the kernel mounts"),
    "maximum-dead-containers": OnlyFlagValue(("-1",), _KEPT),
    "maximum-dead-containers-per-container": OnlyFlagValue(("1",), _KEPT),
    "minimum-container-ttl-duration": OnlyFlagValue(("0", "0s"), _KEPT),
}
NO_EFFECT: Final = {
    "housekeeping-interval": "statistics are collected when they are needed",
    "log-flush-frequency": _IMMEDIATE,
    "log-json-info-buffer-size": _IMMEDIATE,
    "log-json-split-stream": "logs go to standard error",
    "log-text-info-buffer-size": _IMMEDIATE,
    "log-text-split-stream": "logs go to standard error",
    "runtime-cgroups": "statistics of the runtime's control group are not reported",
    "vmodule": "it names Go files; use --v",
}
REFUSED: Final = {
    "exit-on-lock-contention": "kubelets that replace one another are not supported",
    "lock-file": "kubelets that replace one another are not supported",
}
