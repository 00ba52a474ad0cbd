# SPDX-License-Identifier: Apache-2.0
"""Configuration files of components (component-base): field names, durations, logging, decoding. Pure.

document ─▶ check_type ─▶ values of flags (with_values) ─▶ convert, which refuses unknown fields
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from kubeloop.api.scalars.duration import SECOND, format_duration, parse_duration

FlagValues = Mapping[tuple[str, ...], Any]  # by the path of a field
# Field names that are not plain camel case.
_WIRE_NAMES: Final = {
    "cgroups_per_qos": "cgroupsPerQOS",
    "client_ca_file": "clientCAFile",
    "cluster_cidr": "clusterCIDR",
    "cluster_dns": "clusterDNS",
    "cpu_cfs_quota": "cpuCFSQuota",
    "cpu_cfs_quota_period": "cpuCFSQuotaPeriod",
    "enable_dsr": "enableDSR",
    "event_record_qps": "eventRecordQPS",
    "exclude_cidrs": "excludeCIDRs",
    "cache_authorized_ttl": "cacheAuthorizedTTL",
    "cache_ttl": "cacheTTL",
    "cache_unauthorized_ttl": "cacheUnauthorizedTTL",
    "image_gc_high_threshold_percent": "imageGCHighThresholdPercent",
    "image_gc_low_threshold_percent": "imageGCLowThresholdPercent",
    "image_maximum_gc_age": "imageMaximumGCAge",
    "image_minimum_gc_age": "imageMinimumGCAge",
    "kube_api_burst": "kubeAPIBurst",
    "kube_api_qps": "kubeAPIQPS",
    "make_iptables_util_chains": "makeIPTablesUtilChains",
    "pod_cidr": "podCIDR",
    "provider_id": "providerID",
    "registry_pull_qps": "registryPullQPS",
    "reserved_system_cpus": "reservedSystemCPUs",
    "server_tls_bootstrap": "serverTLSBootstrap",
    "single_process_oom_kill": "singleProcessOOMKill",
    "static_pod_url": "staticPodURL",
    "static_pod_url_header": "staticPodURLHeader",
    "strict_arp": "strictARP",
}


class ComponentConfigError(ValueError):
    """Raised for a configuration that cannot be used."""


class ConfigDuration(float):
    """Duration in seconds, which files write as Go does: `1m30s`."""

    def __str__(self) -> str:
        return format_duration(round(self * SECOND))


def wire_name(field: str) -> str:
    """Return the name of a field in files."""
    first, *rest = field.split("_")
    return _WIRE_NAMES.get(field, first + "".join(word.capitalize() for word in rest))


class ConfigPart(msgspec.Struct, frozen=True, kw_only=True, rename=wire_name, forbid_unknown_fields=True):
    """Base of configurations and their parts: unknown fields are refused."""


class OutputRouting(ConfigPart, frozen=True, kw_only=True):
    """OutputRoutingOptions of component-base."""

    split_stream: bool = False
    info_buffer_size: str | int = "0"


class LogFormatOptions(ConfigPart, frozen=True, kw_only=True):
    """FormatOptions of component-base."""

    text: OutputRouting = OutputRouting()
    json: OutputRouting = OutputRouting()


class VModuleItem(ConfigPart, frozen=True, kw_only=True):
    """Verbosity of some files."""

    file_pattern: str = ""
    verbosity: int = 0


class LoggingConfiguration(ConfigPart, frozen=True, kw_only=True):
    """LoggingConfiguration of component-base; a flush frequency that is a number has nanoseconds."""

    format: str = "text"
    flush_frequency: str | int = "5s"
    verbosity: int = 0
    vmodule: tuple[VModuleItem, ...] = ()
    options: LogFormatOptions = LogFormatOptions()


_Config = TypeVar("_Config", bound=ConfigPart)


def check_type(document: Any, api_version: str, kind: str) -> Mapping[str, Any]:
    """Return a document of the given type. Raises `ComponentConfigError`."""
    if not isinstance(document, Mapping):
        raise ComponentConfigError("the document is not an object")
    found = document.get("apiVersion", ""), document.get("kind", "")
    if not all(found):
        raise ComponentConfigError("no apiVersion/kind")
    if found != (api_version, kind):
        raise ComponentConfigError(f"unknown apiVersion/kind: {found[0]}, Kind={found[1]}")
    return document


def with_values(plain: Mapping[str, Any], values: FlagValues) -> dict[str, Any]:
    """Return a document with values at the paths of their fields."""
    found = dict(plain)
    for path, value in values.items():
        found = _with_value(found, path, value)
    return found


def _with_value(plain: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    first, *rest = path
    if not rest:
        return {**plain, first: value}
    return {**plain, first: _with_value(plain.get(first) or {}, tuple(rest), value)}


def convert(plain: Mapping[str, Any], kind: type[_Config]) -> _Config:
    """Return the configuration of a document. Raises `ComponentConfigError` for unknown fields and other types."""
    try:
        return msgspec.convert(plain, kind, dec_hook=decode_duration)
    except msgspec.ValidationError as error:
        raise ComponentConfigError(str(error)) from None


def decode_duration(kind: type, value: object) -> object:
    """Decode hook of msgspec for durations. Raises ValueError for another type or a malformed duration."""
    if kind is not ConfigDuration or not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration such as 1m30s")
    return ConfigDuration(parse_duration(value) / SECOND)


def plain_of(config: ConfigPart) -> dict[str, Any]:
    """Return a configuration as a document."""
    plain: dict[str, Any] = msgspec.to_builtins(config, enc_hook=str)
    return plain
