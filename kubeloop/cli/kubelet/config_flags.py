# SPDX-License-Identifier: Apache-2.0
"""Flags of the kubelet that set fields of its KubeletConfiguration; the file's values are used without them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kubeloop.cli.flags.types import boolean, comma_separated, duration_text, whole_number
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration, to_plain
from kubeloop.runtime.component_config import FlagValues

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def pairs(text: str, sign: str = "=") -> dict[str, str]:
    """Parse `key=value,key=value`."""
    found: dict[str, str] = {}
    for one in filter(None, text.split(",")):
        key, separator, value = (part.strip() for part in one.partition(sign))
        if not key or not separator:
            raise argparse.ArgumentTypeError(f"{one!r} is not of the form key{sign}value")
        found[key] = value
    return found


def thresholds(text: str) -> dict[str, str]:
    """Parse `signal<value,signal<value`."""
    return pairs(text, "<")


def gates(text: str) -> dict[str, bool]:
    """Parse `Name=true,Name=false`."""
    return {name: boolean(value) for name, value in pairs(text).items()}


def headers(text: str) -> dict[str, list[str]]:
    """Parse `name:value,name:value`; a name may be repeated."""
    found: dict[str, list[str]] = {}
    for one in filter(None, text.split(",")):
        name, colon, value = one.partition(":")
        if not colon:
            raise argparse.ArgumentTypeError(f"{one!r} is not of the form name:value")
        found.setdefault(name.strip(), []).append(value.strip())
    return found


def taints(text: str) -> list[dict[str, str]]:
    """Parse `key=value:effect,key:effect`."""
    found = []
    for one in filter(None, text.split(",")):
        what, _, effect = one.rpartition(":")
        key, _, value = what.partition("=")
        if not key or effect not in _EFFECTS:
            raise argparse.ArgumentTypeError(f"{one!r} is not of the form key=value:effect with one of {_EFFECTS}")
        found.append({"key": key, "value": value, "effect": effect})
    return found


def reservations(text: str) -> list[dict[str, Any]]:
    """Parse `numa:resource=amount,resource=amount;numa:…`."""
    found = []
    for one in filter(None, text.split(";")):
        node, colon, limits = one.partition(":")
        if not colon or not node.strip().isdecimal():
            raise argparse.ArgumentTypeError(f"{one!r} is not of the form NUMA:resource=amount")
        found.append({"numaNode": int(node), "limits": pairs(limits)})
    return found


class ConfigFlag(NamedTuple):
    """Flag that sets a field of the configuration."""

    name: str
    path: tuple[str, ...]
    parse: Callable[[str], Any]
    help: str

    @property
    def dest(self) -> str:
        """Name of the flag's attribute."""
        return self.name.replace("-", "_")

    @property
    def is_repeatable(self) -> bool:
        """True if values of several occurrences are joined."""
        return self.parse in (pairs, thresholds, gates, headers, reservations)


class _StoreJoined(argparse.Action):
    """Joins the values of a flag that is given more than once."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest, None)
        if isinstance(before, dict) and isinstance(values, dict):
            lists = {key: [*before.get(key, ()), *one] for key, one in values.items() if isinstance(one, list)}
            values = {**before, **values, **lists}
        elif before is not None:
            values = [*before, *values]
        setattr(namespace, self.dest, values)


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags; they have no default, so that those that are given can be told."""
    for flag in CONFIG_FLAGS:
        options: dict[str, Any] = {"type": flag.parse, "default": argparse.SUPPRESS, "help": flag.help}
        if flag.parse is boolean:
            options |= {"nargs": "?", "const": True, "metavar": "BOOL"}
        elif flag.is_repeatable:
            options |= {"action": _StoreJoined, "metavar": "A=B,…"}
        names = ("-v", "--v") if flag.name == "v" else (f"--{flag.name}",)
        parser.add_argument(*names, **options)


def flag_overrides(options: argparse.Namespace) -> FlagValues:
    """Return the values of the flags that were given, by the path of their fields."""
    return {flag.path: _plain(getattr(options, flag.dest)) for flag in CONFIG_FLAGS if hasattr(options, flag.dest)}


def effective_values(config: KubeletConfiguration) -> dict[str, str]:
    """Return the effective value of each flag as text, for `/flagz`."""
    plain = to_plain(config)
    return {flag.name: _text(_value_at(plain, flag.path)) for flag in CONFIG_FLAGS}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _value_at(plain: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        plain = plain.get(name) if isinstance(plain, dict) else None
    return plain


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{key}={_text(one)}" for key, one in value.items())
    return f"[{','.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)


def _flag(name: str, path: str, parse: Callable[[str], Any], help: str) -> ConfigFlag:
    return ConfigFlag(name, tuple(path.split(".")), parse, help)


_PODS: Final = (
    _flag("pod-manifest-path", "staticPodPath", str, "folder of static pod manifests, or one manifest"),
    _flag("manifest-url", "staticPodURL", str, "URL of further static pods"),
    _flag("manifest-url-header", "staticPodURLHeader", headers, "HTTP headers for --manifest-url"),
    _flag("sync-frequency", "syncFrequency", duration_text, "longest time between two syncs of a pod (default: 1m0s)"),
    _flag("file-check-frequency", "fileCheckFrequency", duration_text, "interval to read manifests (default: 20s)"),
    _flag("http-check-frequency", "httpCheckFrequency", duration_text, "interval of --manifest-url (default: 20s)"),
    _flag("max-pods", "maxPods", whole_number, "maximum number of pods per node (default: 110)"),
    _flag("pods-per-core", "podsPerCore", whole_number, "maximum number of pods per CPU, 0 for no limit (default: 0)"),
    _flag("pod-max-pids", "podPidsLimit", whole_number, "maximum number of processes of a pod (default: -1, no limit)"),
    _flag("pod-cidr", "podCIDR", str, "pod addresses of a kubelet without an API server"),
    _flag("cluster-dns", "clusterDNS", comma_separated, "name servers of pods (default: the node's)"),
    _flag("cluster-domain", "clusterDomain", str, "domain of the cluster (default: cluster.local)"),
    _flag("resolv-conf", "resolvConf", str, "resolver configuration of the node (default: /etc/resolv.conf)"),
    _flag("hairpin-mode", "hairpinMode", str, "hairpin NAT: promiscuous-bridge, hairpin-veth or none"),
    _flag("allowed-unsafe-sysctls", "allowedUnsafeSysctls", comma_separated, "unsafe sysctls, or patterns, of pods"),
    _flag("seccomp-default", "seccompDefault", boolean, "use the runtime's seccomp profile by default"),
)
_SERVING: Final = (
    _flag("enable-server", "enableServer", boolean, "serve the kubelet's port (default: true)"),
    _flag("address", "address", str, "IP address to listen on (default: 0.0.0.0)"),
    _flag(
        *("port", "port", whole_number),
        "HTTPS port of the first node; further nodes use the following ports; 0 for any free port (default: 10250)",
    ),
    _flag("read-only-port", "readOnlyPort", whole_number, "HTTP port without authentication, 0 for none (default: 0)"),
    _flag("healthz-port", "healthzPort", whole_number, "HTTP port of /healthz; 0 for none (default: 10248)"),
    _flag("healthz-bind-address", "healthzBindAddress", str, "IP address of /healthz (default: 127.0.0.1)"),
    _flag("tls-cert-file", "tlsCertFile", str, "serving certificate (default: self-signed)"),
    _flag("tls-private-key-file", "tlsPrivateKeyFile", str, "private key of the certificate"),
    _flag("tls-cipher-suites", "tlsCipherSuites", comma_separated, "cipher suites of the port, by Go's names"),
    _flag("tls-min-version", "tlsMinVersion", str, "least version of TLS, such as VersionTLS13"),
    _flag(
        *("rotate-server-certificates", "serverTLSBootstrap", boolean),
        "request serving certificates from the API server; the requests must be approved (default: false)",
    ),
    _flag(
        *("rotate-certificates", "rotateCertificates", boolean),
        "request a new client certificate before the current one expires (default: true)",
    ),
    _flag(
        "streaming-connection-idle-timeout",
        "streamingConnectionIdleTimeout",
        duration_text,
        "time limit of idle streams (default: 4h0m0s)",
    ),
    _flag("enable-debugging-handlers", "enableDebuggingHandlers", boolean, "serve logs and commands (default: true)"),
    _flag("contention-profiling", "enableContentionProfiling", boolean, "profile locks"),
    _flag(
        *("client-ca-file", "authentication.x509.clientCAFile", str),
        "CA bundle for client certificates (default: read from the API server)",
    ),
    _flag(
        *("anonymous-auth", "authentication.anonymous.enabled", boolean),
        "accept requests without credentials as system:anonymous (default: false)",
    ),
    _flag(
        *("authentication-token-webhook", "authentication.webhook.enabled", boolean),
        "authenticate bearer tokens with TokenReview requests (default: true)",
    ),
    _flag(
        *("authentication-token-webhook-cache-ttl", "authentication.webhook.cacheTTL", duration_text),
        "time to cache authentication results (default: 2m)",
    ),
    _flag(
        "authorization-mode", "authorization.mode", str, "authorization mode: Webhook or AlwaysAllow (default: Webhook)"
    ),
    _flag(
        *("authorization-webhook-cache-authorized-ttl", "authorization.webhook.cacheAuthorizedTTL", duration_text),
        "time to cache allowed requests (default: 5m)",
    ),
    _flag(
        *("authorization-webhook-cache-unauthorized-ttl", "authorization.webhook.cacheUnauthorizedTTL", duration_text),
        "time to cache denied requests (default: 30s)",
    ),
)
_NODE: Final = (
    _flag("register-node", "registerNode", boolean, "create the Node object, else wait for it (default: true)"),
    _flag("register-with-taints", "registerWithTaints", taints, "taints of the nodes: K=V:EFFECT,…"),
    _flag("provider-id", "providerID", str, "identifier of the machine at its cloud provider"),
    _flag(
        *("node-status-update-frequency", "nodeStatusUpdateFrequency", duration_text),
        "interval of node status updates (default: 10s)",
    ),
    _flag("node-status-max-images", "nodeStatusMaxImages", whole_number, "images in the node's status (default: 50)"),
    _flag(
        *("kube-api-qps", "kubeAPIQPS", whole_number),
        "requests per second to the API server (default: 50; unlimited with --nodes)",
    ),
    _flag("kube-api-burst", "kubeAPIBurst", whole_number, "burst of requests to the API server (default: 100)"),
    _flag("kube-api-content-type", "contentType", str, "content type of requests to the API server"),
    _flag("event-qps", "eventRecordQPS", whole_number, "events per second, 0 for no limit (default: 50)"),
    _flag("event-burst", "eventBurst", whole_number, "burst of events (default: 100)"),
    _flag("feature-gates", "featureGates", gates, "feature gates to enable or disable"),
    _flag("logging-format", "logging.format", str, "format of the log: text (klog) or json (default: text)"),
    _flag(
        *("v", "logging.verbosity", whole_number),
        "verbosity of the log: 2 shows progress, repetitions and all tracebacks, 4 shows details (default: 0)",
    ),
)
_RUNTIME: Final = (
    _flag(
        *("container-runtime-endpoint", "containerRuntimeEndpoint", str),
        "socket of a container runtime (CRI), as unix://PATH: run real containers, on one node",
    ),
    _flag(
        "image-service-endpoint", "imageServiceEndpoint", str, "socket of the image service (default: the runtime's)"
    ),
    _flag(
        *("runtime-request-timeout", "runtimeRequestTimeout", duration_text),
        "time limit of calls to the container runtime (default: 2m0s)",
    ),
    _flag("pod-logs-dir", "podLogsDir", str, "folder of the logs of real pods (default: /var/log/pods)"),
    _flag(
        *("container-log-max-size", "containerLogMaxSize", str),
        "size from which the log of a real container is rotated (default: 10Mi)",
    ),
    _flag(
        *("container-log-max-files", "containerLogMaxFiles", whole_number),
        "log files of a real container that are kept, at least 2 (default: 5)",
    ),
    _flag("serialize-image-pulls", "serializeImagePulls", boolean, "pull one image at a time (default: true)"),
    _flag("registry-qps", "registryPullQPS", whole_number, "pulls per second, 0 for no limit (default: 5)"),
    _flag("registry-burst", "registryBurst", whole_number, "burst of pulls (default: 10)"),
    _flag(
        *("image-gc-high-threshold", "imageGCHighThresholdPercent", whole_number),
        "usage of the disk in percent from which unused images are removed (default: 85)",
    ),
    _flag(
        *("image-gc-low-threshold", "imageGCLowThresholdPercent", whole_number),
        "usage of the disk in percent to which unused images are removed (default: 80)",
    ),
    _flag(
        *("minimum-image-ttl-duration", "imageMinimumGCAge", duration_text),
        "least age of an unused image that is removed (default: 2m0s)",
    ),
    _flag("volume-stats-agg-period", "volumeStatsAggPeriod", duration_text, "age of volume statistics (default: 1m0s)"),
    _flag("volume-plugin-dir", "volumePluginDir", str, "folder of volume plugins"),
    _flag(
        *("enable-controller-attach-detach", "enableControllerAttachDetach", boolean),
        "leave attachments to the controller (default: true)",
    ),
)
_EVICTION: Final = (
    _flag("eviction-hard", "evictionHard", thresholds, "thresholds for evictions: SIGNAL<VALUE,…"),
    _flag("eviction-soft", "evictionSoft", thresholds, "thresholds for evictions after a grace period"),
    _flag("eviction-soft-grace-period", "evictionSoftGracePeriod", pairs, "grace periods: SIGNAL=DURATION,…"),
    _flag(
        *("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", whole_number),
        "longest grace period in seconds of pods that soft thresholds evict; negative: the pods' own (default: 0)",
    ),
    _flag(
        *("eviction-pressure-transition-period", "evictionPressureTransitionPeriod", duration_text),
        "time that a pressure condition stays true after its cause (default: 5m0s)",
    ),
    _flag("eviction-minimum-reclaim", "evictionMinimumReclaim", pairs, "least amounts to reclaim: SIGNAL=AMOUNT,…"),
    _flag("kernel-memcg-notification", "kernelMemcgNotification", boolean, "be told of memory thresholds"),
)
_RESOURCES: Final = (
    _flag("cgroup-root", "cgroupRoot", str, "control group above those of real pods (default: /)"),
    _flag("cgroup-driver", "cgroupDriver", str, "manager of control groups: cgroupfs or systemd (default: cgroupfs)"),
    _flag("cgroups-per-qos", "cgroupsPerQOS", boolean, "control groups by quality of service (default: true)"),
    _flag("fail-cgroupv1", "failCgroupV1", boolean, "do not start with control groups of version 1 (default: false)"),
    _flag("kubelet-cgroups", "kubeletCgroups", str, "control group of the kubelet"),
    _flag("system-cgroups", "systemCgroups", str, "control group of processes without one"),
    _flag("cpu-manager-policy", "cpuManagerPolicy", str, "policy of the CPU manager: none or static (default: none)"),
    _flag("cpu-manager-policy-options", "cpuManagerPolicyOptions", pairs, "options of the CPU manager"),
    _flag("cpu-manager-reconcile-period", "cpuManagerReconcilePeriod", duration_text, "interval (default: 10s)"),
    _flag(
        "memory-manager-policy",
        "memoryManagerPolicy",
        str,
        "policy of the memory manager: None or Static (default: None)",
    ),
    _flag("topology-manager-policy", "topologyManagerPolicy", str, "policy of the topology manager (default: none)"),
    _flag("topology-manager-policy-options", "topologyManagerPolicyOptions", pairs, "options of the topology manager"),
    _flag("topology-manager-scope", "topologyManagerScope", str, "container or pod (default: container)"),
    _flag("cpu-cfs-quota", "cpuCFSQuota", boolean, "enforce CPU limits by quota (default: true)"),
    _flag("cpu-cfs-quota-period", "cpuCFSQuotaPeriod", duration_text, "period of the quota (default: 100ms)"),
    _flag("qos-reserved", "qosReserved", pairs, "memory reserved by quality of service"),
    _flag("system-reserved", "systemReserved", pairs, "resources reserved for the system"),
    _flag("system-reserved-cgroup", "systemReservedCgroup", str, "control group of the system"),
    _flag("kube-reserved", "kubeReserved", pairs, "resources reserved for Kubernetes' programs"),
    _flag("kube-reserved-cgroup", "kubeReservedCgroup", str, "control group of Kubernetes' programs"),
    _flag("reserved-cpus", "reservedSystemCPUs", str, "CPUs reserved for the system and for Kubernetes' programs"),
    _flag("reserved-memory", "reservedMemory", reservations, "memory reserved on NUMA nodes"),
    _flag("enforce-node-allocatable", "enforceNodeAllocatable", comma_separated, "enforced limits (default: pods)"),
    _flag("fail-swap-on", "failSwapOn", boolean, "do not start on a machine with swap (default: true)"),
    _flag("protect-kernel-defaults", "protectKernelDefaults", boolean, "require the kubelet's kernel settings"),
    _flag("make-iptables-util-chains", "makeIPTablesUtilChains", boolean, "maintain iptables chains"),
    _flag("local-storage-capacity-isolation", "localStorageCapacityIsolation", boolean, "limit local storage"),
    _flag("oom-score-adj", "oomScoreAdj", whole_number, "adjustment of the kubelet's OOM score (default: -999)"),
    _flag("max-open-files", "maxOpenFiles", whole_number, "files that the kubelet can open (default: 1000000)"),
    _flag("runonce", "runOnce", boolean, "end after static pods have started"),
)
CONFIG_FLAGS: Final = (*_PODS, *_SERVING, *_NODE, *_RUNTIME, *_EVICTION, *_RESOURCES)
