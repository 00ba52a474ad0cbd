# SPDX-License-Identifier: Apache-2.0
"""Metrics of the server, under CoreDNS's names."""

from __future__ import annotations

from typing import Final

from kubeloop.dns.forward.answer_cache import AnswerCache
from kubeloop.dns.forward.forwarder import DnsForwarder
from kubeloop.dns.wire.constants import rcode_name, type_name
from kubeloop.metrics import FastHistogram, Histogram, MetricRegistry, MetricValue, exponential_bounds

_SECONDS: Final = exponential_bounds(0.00025, 2, 16)
_SIZES: Final = (0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3)
_ZONE: Final = "."
_VIEW: Final = ""


class DnsMetrics:
    """Families of the server's metrics."""

    def __init__(self, registry: MetricRegistry, server: str) -> None:
        self._server = server
        where = ("server", "zone", "view")
        self._requests = registry.counter(
            *("coredns_dns_requests_total", *where, "proto", "family", "type"),
            about="Counter of DNS requests made per zone, protocol and family.",
        )
        self._responses = registry.counter(
            "coredns_dns_responses_total", *where, "rcode", "plugin", about="Counter of response status codes."
        )
        self._request_sizes = registry.histogram(
            "coredns_dns_request_size_bytes", *where, "proto", bounds=_SIZES, about="Size of requests in bytes."
        )
        self._response_sizes = registry.histogram(
            *("coredns_dns_response_size_bytes", *where, "proto"),
            bounds=_SIZES,
            about="Size of the returned response in bytes.",
        )
        durations = registry.histogram(
            *("coredns_dns_request_duration_seconds", *where),
            bounds=_SECONDS,
            about="Histogram of the time (in seconds) each request took per zone.",
        )
        self.duration = FastHistogram(_SECONDS)
        durations.set_collector(lambda: {(server, _ZONE, _VIEW): self.duration.histogram()})
        self._exchanges = registry.histogram(
            *("coredns_proxy_request_duration_seconds", "proxy_name", "to", "rcode"),
            bounds=_SECONDS,
            about="Histogram of the time each request took.",
        )
        self._registry = registry

    def channel(self, protocol: str, family: str) -> ChannelMetrics:
        """Return the metrics of a socket: protocol udp or tcp, family 1 (IPv4) or 2 (IPv6)."""
        return ChannelMetrics(self, protocol, family)

    def observe_exchange(self, upstream: str, rcode: int, seconds: float) -> None:
        """Count an exchange with an upstream resolver."""
        self._exchanges.with_labels("forward", upstream, rcode_name(rcode)).observe(seconds)

    def watch_cache(self, cache: AnswerCache) -> None:
        """Register the figures of the cache, which are read on collection."""
        server, registry = self._server, self._registry
        place = ("server", "zones", "view")
        entries = registry.gauge(
            "coredns_cache_entries", "server", "type", "zones", "view", about="The number of elements in the cache."
        )
        hits = registry.counter(
            "coredns_cache_hits_total", "server", "type", "zones", "view", about="The count of cache hits."
        )
        evictions = registry.counter(
            "coredns_cache_evictions_total", "server", "type", "zones", "view", about="The count of cache evictions."
        )
        entries.set_collector(lambda: {(server, kind, _ZONE, _VIEW): cache.size(kind) for kind in cache.hits})
        hits.set_collector(lambda: {(server, kind, _ZONE, _VIEW): count for kind, count in cache.hits.items()})
        evictions.set_collector(
            lambda: {(server, kind, _ZONE, _VIEW): count for kind, count in cache.evictions.items()}
        )
        requests = registry.counter("coredns_cache_requests_total", *place, about="The count of cache requests.")
        requests.set_function(lambda: cache.requests, server, _ZONE, _VIEW)
        misses = registry.counter("coredns_cache_misses_total", *place, about="The count of cache misses.")
        misses.set_function(lambda: cache.requests - sum(cache.hits.values()), server, _ZONE, _VIEW)

    def watch_forwarder(self, forwarder: DnsForwarder) -> None:
        """Register the figures of the forwarder, which are read on collection."""
        rejects = self._registry.counter(
            "coredns_forward_max_concurrent_rejects_total",
            about="Counter of the number of queries rejected because the concurrent queries were at maximum.",
        )
        rejects.set_function(lambda: forwarder.rejected)

    def request_counter(self, protocol: str, family: str, qtype: int) -> MetricValue:
        """Return the counter of requests of a type."""
        name = type_name(qtype)
        shown = "other" if name.startswith("TYPE") or name in ("HINFO", "DNAME", "OPT") else name
        return self._requests.with_labels(self._server, _ZONE, _VIEW, protocol, family, shown)

    def response_counter(self, rcode: int, plugin: str) -> MetricValue:
        """Return the counter of responses by code and source."""
        return self._responses.with_labels(self._server, _ZONE, _VIEW, rcode_name(rcode), plugin)

    def sizes(self, protocol: str) -> tuple[Histogram, Histogram]:
        """Return the histograms of the sizes of requests and responses."""
        labels = self._server, _ZONE, _VIEW, protocol
        return self._request_sizes.with_labels(*labels), self._response_sizes.with_labels(*labels)


class ChannelMetrics:
    """Metrics of one socket, bound once."""

    def __init__(self, metrics: DnsMetrics, protocol: str, family: str) -> None:
        self.protocol = protocol
        self._metrics = metrics
        self._family = family
        self._duration = metrics.duration
        self._requests: dict[int, MetricValue] = {}  # by type; unknown types are not kept
        self._responses: dict[tuple[int, str], MetricValue] = {}
        self._request_sizes, self._response_sizes = metrics.sizes(protocol)

    def observe(self, qtype: int, response: bytes, plugin: str, request_size: int, seconds: float) -> None:
        """Count a request with its response."""
        requests = self._requests.get(qtype)
        if requests is None:
            requests = self._metrics.request_counter(self.protocol, self._family, qtype)
            if qtype < 256:
                self._requests[qtype] = requests
        requests.increment()
        key = response[3] & 0xF, plugin
        responses = self._responses.get(key)
        if responses is None:
            responses = self._responses[key] = self._metrics.response_counter(*key)
        responses.increment()
        self._request_sizes.observe(request_size)
        self._response_sizes.observe(len(response))
        self._duration.observe(seconds)
