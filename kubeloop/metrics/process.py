# SPDX-License-Identifier: Apache-2.0
"""Build, version, feature and process metrics, common to all programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kubeloop import KUBERNETES_VERSION
from kubeloop.metrics.help_texts import help_text
from kubeloop.metrics.registry import MetricRegistry

_MAJOR, _MINOR, _ = KUBERNETES_VERSION.split(".")
_VERSION: Final = f"{_MAJOR}.{_MINOR}"
_MIN_COMPATIBLE: Final = f"{_MAJOR}.{int(_MINOR) - 1}"
_BUILD_LABELS: Final = ("major", "minor", "git_version", "git_commit", "git_tree_state", "build_date")
_PLATFORM_LABELS: Final = ("go_version", "compiler", "platform")
# No flag hides or disables metrics, or limits label values.
_ALWAYS_ZERO: Final = (
    *("cardinality_enforcement_unexpected_categorizations_total", "disabled_metrics_total", "hidden_metrics_total"),
)
_STATM: Final = "/proc/self/statm"


def register_process_metrics(registry: MetricRegistry) -> None:
    """Register build, version and process metrics; values are read on collection."""
    import platform

    build = (_MAJOR, _MINOR, f"v{KUBERNETES_VERSION}", "", "clean", "1970-01-01T00:00:00Z")
    system = (
        f"python{platform.python_version()}",
        platform.python_implementation().lower(),
        f"{platform.system().lower()}/{platform.machine()}",
    )
    registry.gauge("kubernetes_build_info", *_BUILD_LABELS, *_PLATFORM_LABELS).with_labels(*build, *system).value = 1
    versions = registry.gauge("version_info", "component", "binary", "emulation", "min_compat")
    versions.with_labels("kube", _VERSION, _VERSION, _MIN_COMPATIBLE).value = 1
    registered = registry.counter("registered_metrics_total", "stability_level", "deprecated_version")
    registered.set_collector(lambda: _registered(registry))
    for name in _ALWAYS_ZERO:
        registry.counter(name).with_labels()
    cpu = registry.counter("process_cpu_seconds_total")
    cpu.set_function(lambda: sum(os.times()[:2]))
    for name, value_of in _PROCESS_GAUGES.items():
        _set_gauge(registry, name, value_of)


def register_start_time(registry: MetricRegistry) -> None:
    """Register the start time of the process alone, as upstream does in its smaller registries."""
    _set_gauge(registry, "process_start_time_seconds", _start_time)


def register_feature_metrics(registry: MetricRegistry, states: Mapping[tuple[str, ...], float]) -> None:
    """Register the feature gates: 1 or 0 by name and stage."""
    registry.gauge("kubernetes_feature_enabled", "name", "stage").set_collector(lambda: states)


def _set_gauge(registry: MetricRegistry, name: str, value_of: Callable[[], float | None]) -> None:
    """Register a gauge without labels; it has no sample where the system does not tell the value."""

    def collect() -> dict[tuple[str, ...], float]:
        value = value_of()
        return {} if value is None else {(): value}

    registry.gauge(name).set_collector(collect)


def _registered(registry: MetricRegistry) -> dict[tuple[str, ...], float]:
    """Return the number of families by stability level, which begins their help text."""
    found: dict[tuple[str, ...], float] = {}
    for name in registry.names:
        level = help_text(name).partition("]")[0].removeprefix("[")
        if level.isupper():
            found[level, ""] = found.get((level, ""), 0) + 1
    return found


def _start_time() -> float | None:
    """Return the process start time in seconds since 1970, or None if /proc does not have it."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")


def _resident_bytes() -> float | None:
    """Return the resident set size; falls back to the peak size if /proc does not have it."""
    import resource

    pages = _statm(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 if pages is None else pages


def _virtual_bytes() -> float | None:
    return _statm(0)


def _statm(column: int) -> float | None:
    try:
        return int(Path(_STATM).read_text().split()[column]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _max_virtual_bytes() -> float | None:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return float(2**64 - 1) if limit == resource.RLIM_INFINITY else limit


def _max_files() -> float | None:
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _open_files() -> float | None:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


_PROCESS_GAUGES: Final[dict[str, Callable[[], float | None]]] = {
    "process_resident_memory_bytes": _resident_bytes,
    "process_virtual_memory_bytes": _virtual_bytes,
    "process_virtual_memory_max_bytes": _max_virtual_bytes,
    "process_start_time_seconds": _start_time,
    "process_open_fds": _open_files,
    "process_max_fds": _max_files,
}
