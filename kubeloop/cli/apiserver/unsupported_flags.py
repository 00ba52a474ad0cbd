# SPDX-License-Identifier: Apache-2.0
"""kube-apiserver flags without an implementation: accepted with one value, accepted without effect, or rejected.

Each has a reason, which docs/flags.md shows. All other flags of kube-apiserver work.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class OnlyValue(NamedTuple):
    """Values that describe what kubeloop does; any other one is rejected."""

    values: tuple[str, ...]
    reason: str


ONLY_VALUE: Final = {
    "aggregator-reject-forwarding-redirect": OnlyValue(("true",), "redirects of extension API servers are rejected"),
    "audit-log-compress": OnlyValue(("false",), "rotated audit logs are not compressed"),
    "emulated-version": OnlyValue(("1.37", "kube=1.37", "kube=1.37.0"), "the API is that of Kubernetes 1.37"),
    "emulation-forward-compatible": OnlyValue(("false",), "no older version is emulated"),
    "enable-garbage-collector": OnlyValue(("true",), "deletion depends on the garbage collector"),
    "enable-logs-handler": OnlyValue(("false",), "deprecated: it would serve the machine's /var/log"),
    "max-connection-bytes-per-sec": OnlyValue(("0",), "connections to nodes are not throttled"),
    "min-compatibility-version": OnlyValue(("1.36", "kube=1.36", "kube=1.36.0"), "the API is that of Kubernetes 1.37"),
    "runtime-config-emulation-forward-compatible": OnlyValue(("false",), "no older version is emulated"),
    "service-account-lookup": OnlyValue(("true",), "tokens of deleted service accounts are never accepted"),
    "storage-backend": OnlyValue(("", "etcd3"), "etcd 3; --store selects the embedded stores"),
}

_HTTP_1: Final = "the server speaks HTTP/1.1"
_IMMEDIATE: Final = "log lines are written at once"
_PROFILES: Final = "there are no Go profiles; use py-spy"
# Accepted with every value.
NO_EFFECT: Final = {
    "allow-metric-labels": "label values are not restricted",
    "allow-metric-labels-manifest": "label values are not restricted",
    "contention-profiling": _PROFILES,
    "coordinated-leadership-lease-duration": "the feature gate CoordinatedLeaderElection is off",
    "coordinated-leadership-renew-deadline": "the feature gate CoordinatedLeaderElection is off",
    "coordinated-leadership-retry-period": "the feature gate CoordinatedLeaderElection is off",
    "delete-collection-workers": "deletions of a collection share their flushes",
    "disable-http2-serving": _HTTP_1,
    "disabled-metrics": "all metrics are served",
    "etcd-count-metric-poll-period": "objects are counted when metrics are read",
    "etcd-db-metric-poll-interval": "sizes are read when metrics are read",
    "etcd-healthcheck-timeout": "health is that of the last call to etcd",
    "etcd-readycheck-timeout": "health is that of the last call to etcd",
    "http2-max-streams-per-connection": _HTTP_1,
    "lease-reuse-duration-seconds": "a lease is reused for a fixed time",
    "log-flush-frequency": _IMMEDIATE,
    "log-json-info-buffer-size": _IMMEDIATE,
    "log-json-split-stream": "logs go to standard error",
    "log-text-info-buffer-size": _IMMEDIATE,
    "log-text-split-stream": "logs go to standard error",
    "permit-address-sharing": "the port can be bound again at once after a restart anyway",
    "profiling": _PROFILES,
    "show-hidden-metrics-for-version": "no metric is hidden",
    "shutdown-watch-termination-grace-period": "watches end at once, and clients resume them elsewhere",
    "storage-initialization-timeout": "the store is read before the port is opened",
    "storage-media-type": "objects are stored as JSON",
    "vmodule": "it names Go files; use --v",
    "watch-cache": "reads and watches always come from memory",
    "watch-cache-sizes": "reads and watches always come from memory",
}

REFUSED: Final = {
    "debug-socket-path": _PROFILES,
    "egress-selector-config-file": "connections to nodes, pods and services are direct",
    "etcd-servers-overrides": "all resources are in one store",
    "peer-advertise-ip": "servers of different versions cannot share a store",
    "peer-advertise-port": "servers of different versions cannot share a store",
    "peer-ca-file": "servers of different versions cannot share a store",
    "shutdown-send-retry-after": "requests during the shutdown are refused by the listener",
    "tracing-config-file": "OpenTelemetry is not supported; `kubeloop why` tells the causes of writes",
}

_LATER = """
authorization-policy-file
service-account-signing-endpoint
"""
UNSUPPORTED: Final = (*_LATER.split(), *REFUSED)


def reason_of(name: str) -> str:
    """Return why a flag is rejected."""
    return REFUSED.get(name, "kubeloop does not support it yet")
