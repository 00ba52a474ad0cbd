# SPDX-License-Identifier: Apache-2.0
"""Validates a KubeletConfiguration: upstream's rules, with upstream's messages. Pure."""

from __future__ import annotations

import ipaddress
import os.path
from collections.abc import Callable, Iterator
from typing import Final

from kubeloop.api.features.gates import Features
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.kubelet.admission.sysctls import check_sysctl_patterns, is_valid_sysctl, namespace_of, normalize_name
from kubeloop.kubelet.cm.cpus.cpuset import InvalidCpuSet, parse_cpuset
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration as Config
from kubeloop.kubelet.eviction.signals import eviction_policy_of
from kubeloop.kubelet.images.pull_policies import parse_allowlist_pattern

_UNIT_IDS: Final = 65536
_MOST_IDS: Final = (1 << 32) - 1
_OLD_THROTTLING_FACTOR: Final = 0.9  # the default of older versions, which is in many files
_ENFORCEMENTS: Final = (
    *("pods", "system-reserved", "system-reserved-compressible"),
    *("kube-reserved", "kube-reserved-compressible", "none"),
)
_PULL_POLICIES: Final = ("NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify")
_TOPOLOGY_POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
Rule = Callable[[Config, Features], Iterator[str]]


def validate_configuration(config: Config, features: Features) -> list[str]:
    """Return what is wrong with a configuration."""
    return [f"invalid configuration: {one}" for rule in _RULES for one in rule(config, features)]


def _numbers(c: Config, _: Features) -> Iterator[str]:
    """Check the numbers that have a range of their own."""
    if c.node_lease_duration_seconds <= 0:
        yield "nodeLeaseDurationSeconds must be greater than 0"
    counts = (
        ("eventBurst", "event-burst", c.event_burst),
        ("eventRecordQPS", "event-qps", c.event_record_qps),
        ("kubeAPIBurst", "kube-api-burst", c.kube_api_burst),
        ("kubeAPIQPS", "kube-api-qps", c.kube_api_qps),
        ("maxOpenFiles", "max-open-files", c.max_open_files),
        ("maxPods", "max-pods", c.max_pods),
        ("podsPerCore", "pods-per-core", c.pods_per_core),
        ("registryBurst", "registry-burst", c.registry_burst),
        ("registryPullQPS", "registry-qps", c.registry_pull_qps),
    )
    for name, flag, value in counts:
        if value < 0:
            yield f"{name} (--{flag}) {value} must not be a negative number"
    ranges = (
        ("imageGCHighThresholdPercent", "image-gc-high-threshold", c.image_gc_high_threshold_percent, 0, 100),
        ("imageGCLowThresholdPercent", "image-gc-low-threshold", c.image_gc_low_threshold_percent, 0, 100),
        ("iptablesDropBit", "iptables-drop-bit", c.iptables_drop_bit, 0, 31),
        ("iptablesMasqueradeBit", "iptables-masquerade-bit", c.iptables_masquerade_bit, 0, 31),
        ("oomScoreAdj", "oom-score-adj", c.oom_score_adj, -1000, 1000),
        ("port", "port", c.port or 1, 1, 65535),  # 0 stands for any free port here
        ("healthzPort", "healthz-port", c.healthz_port or 1, 1, 65535),
        ("readOnlyPort", "read-only-port", c.read_only_port, 0, 65535),
    )
    for name, flag, value, least, most in ranges:
        if not least <= value <= most:
            yield f"{name} (--{flag}) {value} must be between {least} and {most}, inclusive"
    if c.node_status_max_images < -1:
        yield f"nodeStatusMaxImages (--node-status-max-images) {c.node_status_max_images} must be -1 or greater"


def _images(c: Config, features: Features) -> Iterator[str]:
    low, high = c.image_gc_low_threshold_percent, c.image_gc_high_threshold_percent
    if low >= high:
        yield (
            f"imageGCLowThresholdPercent (--image-gc-low-threshold) {low} must be less than "
            f"imageGCHighThresholdPercent (--image-gc-high-threshold) {high}"
        )
    least, most = c.image_minimum_gc_age, c.image_maximum_gc_age
    for name, age in (("imageMinimumGCAge", least), ("imageMaximumGCAge", most)):
        if age < 0:
            yield f"{name} {age} must not be negative"
    if 0 < most <= least:
        yield f"imageMaximumGCAge {most} must be greater than imageMinimumGCAge {least}"
    if (pulls := c.max_parallel_image_pulls) is not None and pulls < 1:
        yield f"maxParallelImagePulls {pulls} must be a positive number"
    if c.serialize_image_pulls and pulls is not None and pulls > 1:
        yield (
            "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is "
            "set to false"
        )
    policy, allowed = c.image_pull_credentials_verification_policy, c.preloaded_images_verification_allowlist
    if features.is_enabled("KubeletEnsureSecretPulledImages"):
        if policy not in _PULL_POLICIES:
            yield (
                f'option "{policy}" specified for imagePullCredentialsVerificationPolicy. Valid options are '
                f"{_quoted(_PULL_POLICIES)}"
            )
        if allowed and policy != "NeverVerifyAllowlistedImages":
            yield (
                "can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not "
                '"NeverVerifyAllowlistedImages"'
            )
        else:
            yield from _allowlist(allowed)
        return
    for name, value in (
        ("imagePullCredentialsVerificationPolicy", policy),
        ("preloadedImagesVerificationAllowlist", allowed),
    ):
        if value:
            yield f"`{name}` must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled"


def _allowlist(patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        try:
            parse_allowlist_pattern(pattern)
        except ValueError as error:
            yield f"invalid image pattern in `preloadedImagesVerificationAllowlist`: {error}"
            return


def _logs(c: Config, _: Features) -> Iterator[str]:
    if c.container_log_max_workers < 1:
        yield "containerLogMaxWorkers must be greater than or equal to 1"
    if c.container_log_monitor_interval < 3:
        yield "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s"
    if c.container_log_max_files <= 1:
        yield "containerLogMaxFiles must be greater than 1"
    path = c.pod_logs_dir
    if not os.path.isabs(path):
        yield f'pod logs path "{path}" must be absolute path'
    if os.path.normpath(path) != path:
        yield f'pod logs path "{path}" must be normalized'
    if not path.isascii():
        yield f'pod logs path "{path}" mut contains ASCII characters only'
    yield from _quantity("containerLogMaxSize", c.container_log_max_size)
    if c.enable_system_log_query and not c.enable_system_log_handler:
        yield "enableSystemLogHandler is required for enableSystemLogQuery"
    if c.logging.format not in ("text", "json"):
        yield f'logging.format: Invalid value: "{c.logging.format}": Unsupported log format'


def _cpu(c: Config, features: Features) -> Iterator[str]:
    period = c.cpu_cfs_quota_period
    if not features.is_enabled("CustomCPUCFSQuotaPeriod"):
        if period != 0.1:
            yield (f"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {period} requires feature gate CustomCPUCFSQuotaPeriod")
    elif not 0.001 <= period <= 1:
        yield f"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {period} must be between 1ms and 1sec, inclusive"
    if c.cpu_manager_policy not in ("none", "static"):
        yield f'unknown cpuManagerPolicy (--cpu-manager-policy): "{c.cpu_manager_policy}"'
    if c.topology_manager_policy not in _TOPOLOGY_POLICIES:
        yield (
            f'topologyManagerPolicy (--topology-manager-policy) "{c.topology_manager_policy}" must be one of: '
            f"[{' '.join(map(_quote, _TOPOLOGY_POLICIES))}]"
        )
    if c.topology_manager_scope not in ("container", "pod"):
        yield (
            f'topologyManagerScope (--topology-manager-scope) "{c.topology_manager_scope}" must be one of: '
            '"container", or "pod"'
        )
    if c.reserved_system_cpus:
        if c.system_reserved_cgroup or c.kube_reserved_cgroup:
            yield (
                "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) "
                "or kubeReservedCgroup (--kube-reserved-cgroup)"
            )
        try:
            parse_cpuset(c.reserved_system_cpus)
        except InvalidCpuSet as error:
            yield f"unable to parse reservedSystemCPUs (--reserved-cpus) {c.reserved_system_cpus}, error: {error}"


def _memory(c: Config, features: Features) -> Iterator[str]:
    if c.memory_manager_policy not in ("None", "Static"):
        yield f'unknown memoryManagerPolicy (--memory-manager-policy): "{c.memory_manager_policy}"'
    if c.memory_swap.swap_behavior not in ("", "NoSwap", "LimitedSwap"):
        yield f'memorySwap.swapBehavior "{c.memory_swap.swap_behavior}" must be one of: "", "LimitedSwap" or "NoSwap"'
    has_qos, factor = features.is_enabled("MemoryQoS"), c.memory_throttling_factor
    if not has_qos and factor not in (None, _OLD_THROTTLING_FACTOR):
        yield "memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled"
    if factor is not None and not 0 < factor <= 1:
        yield f"memoryThrottlingFactor {factor} must be greater than 0 and less than or equal to 1.0"
    policy = c.memory_reservation_policy
    if policy == "TieredReservation" and not has_qos:
        yield f'memoryReservationPolicy "{policy}" requires MemoryQoS feature gate to be enabled'
    if policy not in ("None", "TieredReservation"):
        yield (
            f'option "{policy}" specified for memoryReservationPolicy. Valid options are "None" or "TieredReservation"'
        )
    seen: set[tuple[int, str]] = set()
    for one in c.reserved_memory:
        for name, text in one.limits.items():
            where = f"NUMA node {one.numa_node} and resource {_quote(name)}"
            if name != "memory" and not name.startswith("hugepages-"):
                yield (
                    f'the limit type "{name}" for NUMA node {one.numa_node} is not supported, only '
                    "[memory hugepages-<HugePageSize>] is accepted"
                )
            yield from _quantity("reservedMemory", text)
            if text in ("0", "0Mi", "0Gi"):
                yield f"reserved memory may not be zero for {where}"
            if (one.numa_node, name) in seen:
                yield f"the reserved memory has a duplicate value for {where}"
            seen.add((one.numa_node, name))


def _control_groups(c: Config, _: Features) -> Iterator[str]:
    if c.system_cgroups and not c.cgroup_root:
        yield "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified"
    if c.cgroup_driver not in ("cgroupfs", "systemd"):
        yield f'cgroupDriver (--cgroup-driver) "{c.cgroup_driver}" must be "cgroupfs" or "systemd"'
    flag, named = "enforceNodeAllocatable (--enforce-node-allocatable)", c.enforce_node_allocatable
    for key in ("system-reserved", "kube-reserved"):
        if key in named and f"{key}-compressible" in named:
            yield f'both "{key}" and "{key}-compressible" cannot be specified together in {flag}'
    for at, value in enumerate(named):
        if value in named[:at]:
            yield f'duplicated enforcements "{value}" in {flag}'
        elif value not in _ENFORCEMENTS:
            yield f'option "{value}" specified for {flag}. Valid options are {_quoted(_ENFORCEMENTS)}'
        elif value == "none":
            if len(named) > 1:
                yield f'{flag} may not contain additional enforcements when "none" is specified'
        else:
            yield from _enforcement(c, value)


def _enforcement(c: Config, value: str) -> Iterator[str]:
    flag = "enforceNodeAllocatable (--enforce-node-allocatable)"
    for part, group in (("system", c.system_reserved_cgroup), ("kube", c.kube_reserved_cgroup)):
        if value.startswith(f"{part}-") and not group:
            yield (
                f"{part}ReservedCgroup (--{part}-reserved-cgroup) must be specified when "
                f'"{part}-reserved" or "{part}-reserved-compressible" included in {flag}'
            )
    if not c.cgroups_per_qos:
        yield f'cgroupsPerQOS (--cgroups-per-qos) must be set to true when "{value}" contained in {flag}'


def _reservations(c: Config, _: Features) -> Iterator[str]:
    for name, amounts in (("systemReserved", c.system_reserved), ("kubeReserved", c.kube_reserved)):
        for resource, text in amounts.items():
            if resource not in ("cpu", "memory", "ephemeral-storage", "pid"):
                yield f'cannot reserve "{resource}" resource with {name}'
            yield from _quantity(f"{name}.{resource}", text)


def _shutdown(c: Config, features: Features) -> Iterator[str]:
    whole, critical = c.shutdown_grace_period, c.shutdown_grace_period_critical_pods
    if features.is_enabled("GracefulNodeShutdown"):
        if critical > whole:
            yield f"shutdownGracePeriodCriticalPods {{{critical}}} must be <= shutdownGracePeriod {{{whole}}}"
        for name, value in (("shutdownGracePeriod", whole), ("shutdownGracePeriodCriticalPods", critical)):
            if value < 0 or 0 < value < 1:
                yield f"{name} {{{value}}} must be either zero or otherwise >= 1 sec"
    elif whole > 0 or critical > 0:
        yield (
            "specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate "
            "GracefulNodeShutdown"
        )
    if not c.shutdown_grace_period_by_pod_priority:
        return
    if not features.is_enabled("GracefulNodeShutdownBasedOnPodPriority"):
        yield (
            "Specifying shutdownGracePeriodByPodPriority requires feature gate GracefulNodeShutdownBasedOnPodPriority"
        )
    elif whole > 0 or critical > 0:
        yield "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time"


def _back_off(c: Config, features: Features) -> Iterator[str]:
    period = c.crash_loop_back_off.max_container_restart_period
    if not features.is_enabled("KubeletCrashLoopBackOffMax"):
        if period is not None:
            yield (
                "FeatureGate KubeletCrashLoopBackOffMax not enabled, CrashLoopBackOff.MaxContainerRestartPeriod must "
                "not be set"
            )
    elif period is None:
        yield (
            "FeatureGate KubeletCrashLoopBackOffMax is enabled, CrashLoopBackOff.MaxContainerRestartPeriod must be set"
        )
    elif not 1 <= period <= 300:
        yield (
            f"CrashLoopBackOff.MaxContainerRestartPeriod (got: {float(period):g} seconds) must be set between 1s and "
            "300s"
        )


def _pods(c: Config, features: Features) -> Iterator[str]:
    if c.hairpin_mode not in ("none", "hairpin-veth", "promiscuous-bridge"):
        yield (
            f'option "{c.hairpin_mode}" specified for hairpinMode (--hairpin-mode). Valid options are "none", '
            '"hairpin-veth" or "promiscuous-bridge"'
        )
    yield from check_sysctl_patterns(c.allowed_unsafe_sysctls)
    if c.default_pod_sysctls and not features.is_enabled("DefaultPodSysctls"):
        yield "DefaultPodSysctls feature gate is required for Kubelet configuration option defaultPodSysctls"
    elif c.default_pod_sysctls:
        yield from _default_sysctls(c)
    ids = c.user_namespaces.ids_per_pod if c.user_namespaces is not None else None
    if ids is not None and ids < _UNIT_IDS:
        yield f"userNamespaces.idsPerPod must not be less than {_UNIT_IDS}"
    elif ids is not None and ids % _UNIT_IDS:
        yield f"userNamespaces.idsPerPod must be a multiple of {_UNIT_IDS}"
    elif ids is not None and ids > _MOST_IDS:
        yield f"userNamespaces.idsPerPod must not be more than {_MOST_IDS}"
    for taint in c.register_with_taints:
        if not taint.key or taint.effect not in _EFFECTS:
            yield f"invalid taint: {taint.key}={taint.value}:{taint.effect}"
        if taint.time_added is not None:
            yield "taint.TimeAdded is not nil"
    if c.run_once:
        yield "runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set"


def _default_sysctls(c: Config) -> Iterator[str]:
    seen: set[str] = set()
    for name in c.default_pod_sysctls:
        if not is_valid_sysctl(name):
            yield f'"{name}" is not a valid sysctl name for defaultPodSysctls'
            continue
        if namespace_of(name) is None:
            yield f'"{name}" is not known to be namespaced for defaultPodSysctls'
        if (normal := normalize_name(name)) in seen:
            yield f'duplicate sysctl "{normal}" found in defaultPodSysctls'
        seen.add(normal)


def _access(c: Config, features: Features) -> Iterator[str]:
    for name, text in (("address", c.address), ("healthzBindAddress", c.healthz_bind_address)):
        if not _is_address(text):
            yield f'{name} "{text}" is not an IP address'
    for text in c.cluster_dns:
        if not _is_address(text):
            yield f'clusterDNS "{text}" is not an IP address'
    if c.authorization.mode not in ("AlwaysAllow", "Webhook"):
        yield f'unknown authorization mode "{c.authorization.mode}"'
    if c.server_tls_bootstrap and not features.is_enabled("RotateKubeletServerCertificate"):
        yield "serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate"


def _eviction(c: Config, _: Features) -> Iterator[str]:
    try:
        eviction_policy_of(c)
    except ValueError as error:
        yield str(error)


def _quantity(name: str, text: str) -> Iterator[str]:
    try:
        if parse_quantity(text).value() >= 0:
            return
    except ValueError:
        pass
    yield f'{name} "{text}" is not a quantity of at least 0'


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _quote(text: str) -> str:
    return f'"{text}"'


def _quoted(options: tuple[str, ...]) -> str:
    return f"{', '.join(map(_quote, options[:-1]))} or {_quote(options[-1])}"


_RULES: Final[tuple[Rule, ...]] = (
    _numbers,
    _images,
    _logs,
    _cpu,
    _memory,
    _control_groups,
    _reservations,
    _shutdown,
    _back_off,
    _pods,
    _access,
    _eviction,
)
