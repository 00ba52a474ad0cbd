# SPDX-License-Identifier: Apache-2.0
"""resolv.conf of a pod: the cluster's name servers, the node's, or the pod's own, within upstream's limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.kubelet.cri.messages.sandbox import DNSConfig

_MOST_NAMESERVERS, _MOST_SEARCHES, _LONGEST_SEARCH_LINE = 3, 32, 2048
_LONGEST_SEARCH = 253  # some resolvers abort at a longer name
_CLUSTER_OPTIONS = ("ndots:5",)


class DnsSettings(NamedTuple):
    """Name servers and domain of the cluster, and the resolv.conf of the node."""

    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"
    host: DNSConfig = DNSConfig()


def parse_resolv_conf(text: str) -> DNSConfig:
    """Parse a resolv.conf; later search lines replace earlier ones."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "nameserver" and len(words) > 1:
            servers.append(words[1])
        elif words[0] == "search":
            searches = [word.removesuffix(".") for word in words[1:] if word != "."]
        elif words[0] == "options":
            options |= {word.partition(":")[0]: word for word in words[1:]}
    return DNSConfig(servers=tuple(servers), searches=tuple(searches), options=tuple(options.values()))


def pod_dns(pod: Pod, settings: DnsSettings) -> DNSConfig:
    """Return the resolv.conf of a pod by its DNS policy."""
    policy = pod.spec.dns_policy or "ClusterFirst"
    host = settings.host
    is_cluster = policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not pod.spec.host_network)
    if policy == "None":
        base = DNSConfig()
    elif is_cluster and settings.cluster_dns:
        domain = settings.cluster_domain
        searches = (f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain) if domain else ()
        base = DNSConfig(
            servers=settings.cluster_dns, searches=_unique((*searches, *host.searches)), options=_CLUSTER_OPTIONS
        )
    else:
        base = host
    return _within_limits(_with_own(pod, base))


def _with_own(pod: Pod, base: DNSConfig) -> DNSConfig:
    own = pod.spec.dns_config
    if own is None:
        return base
    options = {option.partition(":")[0]: option for option in base.options}
    for one in own.options:
        options[one.name] = f"{one.name}:{one.value}" if one.value else one.name
    return DNSConfig(
        servers=_unique((*base.servers, *own.nameservers)),
        searches=_unique((*base.searches, *own.searches)),
        options=tuple(options.values()),
    )


def _within_limits(config: DNSConfig) -> DNSConfig:
    searches: list[str] = []
    for one in config.searches[:_MOST_SEARCHES]:
        if len(one) > _LONGEST_SEARCH:
            continue
        if len(" ".join((*searches, one))) > _LONGEST_SEARCH_LINE:
            break
        searches.append(one)
    return DNSConfig(servers=config.servers[:_MOST_NAMESERVERS], searches=tuple(searches), options=config.options)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
