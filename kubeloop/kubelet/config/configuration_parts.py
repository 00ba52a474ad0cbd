# SPDX-License-Identifier: Apache-2.0
"""Parts of KubeletConfiguration v1beta1, with upstream's defaults."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeloop.runtime.component_config import ConfigDuration, ConfigPart


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
