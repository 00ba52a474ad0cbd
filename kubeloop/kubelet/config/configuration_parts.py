# SPDX-License-Identifier: Apache-2.0
"""Parts of KubeletConfiguration v1beta1, with upstream's defaults, and the spelling of its field names."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeloop.api.scalars.duration import SECOND, format_duration, parse_duration

# Field names that are not plain camel case.
_WIRE_NAMES = {
    "cgroups_per_qos": "cgroupsPerQOS",
    "client_ca_file": "clientCAFile",
    "cluster_dns": "clusterDNS",
    "cpu_cfs_quota": "cpuCFSQuota",
    "cpu_cfs_quota_period": "cpuCFSQuotaPeriod",
    "event_record_qps": "eventRecordQPS",
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
}


class ConfigDuration(float):
    """Duration in seconds, which files write as Go does: `1m30s`."""

    def __str__(self) -> str:
        return format_duration(round(self * SECOND))


def decode_duration(kind: type, value: object) -> object:
    """Decode hook of msgspec for durations. Raises ValueError for another type or a malformed duration."""
    if kind is not ConfigDuration or not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration such as 1m30s")
    return ConfigDuration(parse_duration(value) / SECOND)


def wire_name(field: str) -> str:
    """Return the name of a field in files."""
    first, *rest = field.split("_")
    return _WIRE_NAMES.get(field, first + "".join(word.capitalize() for word in rest))


class ConfigPart(msgspec.Struct, frozen=True, kw_only=True, rename=wire_name, forbid_unknown_fields=True):
    """Base of the configuration's parts: unknown fields are refused."""


class X509Authentication(ConfigPart, frozen=True, kw_only=True):
    """KubeletX509Authentication."""

    client_ca_file: str = ""


class WebhookAuthentication(ConfigPart, frozen=True, kw_only=True):
    """KubeletWebhookAuthentication: bearer tokens by TokenReview."""

    enabled: bool = True
    cache_ttl: ConfigDuration = ConfigDuration(120)


class AnonymousAuthentication(ConfigPart, frozen=True, kw_only=True):
    """KubeletAnonymousAuthentication."""

    enabled: bool = False


class KubeletAuthentication(ConfigPart, frozen=True, kw_only=True):
    """KubeletAuthentication: of requests to the kubelet's port."""

    x509: X509Authentication = X509Authentication()
    webhook: WebhookAuthentication = WebhookAuthentication()
    anonymous: AnonymousAuthentication = AnonymousAuthentication()


class WebhookAuthorization(ConfigPart, frozen=True, kw_only=True):
    """KubeletWebhookAuthorization: decisions of SubjectAccessReview."""

    cache_authorized_ttl: ConfigDuration = ConfigDuration(300)
    cache_unauthorized_ttl: ConfigDuration = ConfigDuration(30)


class KubeletAuthorization(ConfigPart, frozen=True, kw_only=True):
    """KubeletAuthorization: of requests to the kubelet's port."""

    mode: str = "Webhook"
    webhook: WebhookAuthorization = WebhookAuthorization()


class MemorySwapConfiguration(ConfigPart, frozen=True, kw_only=True):
    """MemorySwapConfiguration."""

    swap_behavior: str = ""


class CrashLoopBackOffConfig(ConfigPart, frozen=True, kw_only=True):
    """CrashLoopBackOffConfig; no value only without the feature gate KubeletCrashLoopBackOffMax."""

    max_container_restart_period: ConfigDuration | None = ConfigDuration(300)


class MemoryReservation(ConfigPart, frozen=True, kw_only=True):
    """MemoryReservation of a NUMA node; limits by resource."""

    numa_node: int = 0
    limits: Mapping[str, str] = msgspec.field(default_factory=dict)


class ShutdownGracePeriodByPodPriority(ConfigPart, frozen=True, kw_only=True):
    """Grace period of a node shutdown for pods of at least a priority."""

    priority: int = 0
    shutdown_grace_period_seconds: int = 0


class UserNamespaces(ConfigPart, frozen=True, kw_only=True):
    """UserNamespaces: IDs of each pod with a user namespace of its own."""

    ids_per_pod: int | None = None


class TaintConfig(ConfigPart, frozen=True, kw_only=True):
    """Taint of the node when it is registered."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class TracingConfiguration(ConfigPart, frozen=True, kw_only=True):
    """TracingConfiguration of component-base."""

    endpoint: str | None = None
    sampling_rate_per_million: int | None = None


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
