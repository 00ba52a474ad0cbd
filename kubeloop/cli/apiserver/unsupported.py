"""kube-apiserver flags that are not read: those accepted with our value only, and those always rejected."""

from __future__ import annotations

# The one value of each that describes what kubeloop does; any other is refused.
ONLY_VALUE = {
    "audit-log-compress": "false",
    "audit-log-format": "json",
    "audit-log-mode": "blocking",
    "audit-log-version": "audit.k8s.io/v1",
    "contention-profiling": "false",
    "delete-collection-workers": "1",
    "disable-http2-serving": "true",
    "enable-garbage-collector": "true",
    "enable-logs-handler": "false",
    "goaway-chance": "0",
    "logging-format": "text",
    "min-request-timeout": "1800",
    "permit-address-sharing": "false",
    "permit-port-sharing": "false",
    "profiling": "false",
    "service-account-extend-token-expiration": "true",
    "service-account-lookup": "true",
    "storage-media-type": "application/json",
    "tls-min-version": "VersionTLS12",
    "watch-cache": "true",
}

_MORE = """
admission-control admission-control-config-file aggregator-reject-forwarding-redirect allow-metric-labels
allow-metric-labels-manifest allow-privileged audit-log-batch-buffer-size audit-log-batch-max-size
audit-log-batch-max-wait audit-log-batch-throttle-burst audit-log-batch-throttle-enable audit-log-batch-throttle-qps
audit-log-truncate-enabled audit-log-truncate-max-batch-size audit-log-truncate-max-event-size
audit-webhook-batch-buffer-size audit-webhook-batch-max-size audit-webhook-batch-max-wait
audit-webhook-batch-throttle-burst audit-webhook-batch-throttle-enable audit-webhook-batch-throttle-qps
audit-webhook-config-file audit-webhook-initial-backoff audit-webhook-mode audit-webhook-truncate-enabled
audit-webhook-truncate-max-batch-size audit-webhook-truncate-max-event-size audit-webhook-version
authentication-config authentication-token-webhook-cache-ttl authentication-token-webhook-config-file
authentication-token-webhook-version authorization-config authorization-policy-file
authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
authorization-webhook-config-file authorization-webhook-version coordinated-leadership-lease-duration
coordinated-leadership-renew-deadline coordinated-leadership-retry-period cors-allowed-origins debug-socket-path
default-not-ready-toleration-seconds default-unreachable-toleration-seconds disable-admission-plugins disabled-metrics
egress-selector-config-file emulated-version emulation-forward-compatible enable-admission-plugins
endpoint-reconciler-type etcd-count-metric-poll-period etcd-db-metric-poll-interval
etcd-healthcheck-timeout etcd-readycheck-timeout etcd-servers-overrides external-hostname
http2-max-streams-per-connection kubernetes-service-node-port
lease-reuse-duration-seconds livez-grace-period log-flush-frequency log-json-info-buffer-size log-json-split-stream
log-text-info-buffer-size log-text-split-stream max-connection-bytes-per-sec min-compatibility-version oidc-ca-file
oidc-client-id oidc-groups-claim oidc-groups-prefix oidc-issuer-url oidc-required-claim oidc-signing-algs
oidc-username-claim oidc-username-prefix peer-advertise-ip peer-advertise-port peer-ca-file
runtime-config-emulation-forward-compatible service-account-max-token-expiration
service-account-signing-endpoint show-hidden-metrics-for-version shutdown-send-retry-after
shutdown-watch-termination-grace-period storage-backend storage-initialization-timeout
strict-transport-security-directives tls-cipher-suites tls-curve-preferences tls-sni-cert-key tracing-config-file
vmodule watch-cache-sizes
"""
UNSUPPORTED = tuple(_MORE.split())
