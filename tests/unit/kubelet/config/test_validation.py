# SPDX-License-Identifier: Apache-2.0
"""Validation of KubeletConfigurations."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.kubelet.config.decode import decode_configuration, features_of
from kubeloop.kubelet.config.validation import validate_configuration

MI = {"memory": "1Mi"}


def problems(**fields: Any) -> list[str]:
    config = decode_configuration(fields, {})
    return validate_configuration(config, features_of(config.feature_gates))


def test_the_defaults_are_valid() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"nodeLeaseDurationSeconds": -1}, "nodeLeaseDurationSeconds must be greater than 0"),
        ({"systemCgroups": "/s"}, "systemCgroups (--system-cgroups) was specified and cgroupRoot"),
        ({"eventBurst": -1}, "eventBurst (--event-burst) -1 must not be a negative number"),
        ({"healthzPort": 65536}, "healthzPort (--healthz-port) 65536 must be between 1 and 65535, inclusive"),
        ({"port": -1}, "port (--port) -1 must be between 1 and 65535"),
        ({"oomScoreAdj": 1001}, "oomScoreAdj (--oom-score-adj) 1001 must be between -1000 and 1000"),
        ({"cpuCFSQuotaPeriod": "2s"}, "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) 2s must be between 1ms and 1sec"),
        ({"imageGCHighThresholdPercent": 101}, "(--image-gc-high-threshold) 101 must be between 0 and 100"),
        ({"imageGCHighThresholdPercent": 80}, "must be less than imageGCHighThresholdPercent"),
        ({"imageMaximumGCAge": "1m"}, "imageMaximumGCAge 1m0s must be greater than imageMinimumGCAge 2m0s"),
        ({"nodeStatusMaxImages": -2}, "must be -1 or greater"),
        ({"maxParallelImagePulls": 0}, "maxParallelImagePulls 0 must be a positive number"),
        ({"maxParallelImagePulls": 2, "serializeImagePulls": True}, "cannot be larger than 1 unless"),
        ({"runOnce": True}, "Runonce mode has been deprecated"),
        ({"topologyManagerPolicy": "x"}, 'topologyManagerPolicy (--topology-manager-policy) "x" must be one of'),
        ({"topologyManagerScope": "x"}, 'topologyManagerScope (--topology-manager-scope) "x"'),
        ({"shutdownGracePeriod": "1s", "shutdownGracePeriodCriticalPods": "2s"}, "must be <= shutdownGracePeriod"),
        ({"shutdownGracePeriod": "500ms"}, "must be either zero or otherwise >= 1 sec"),
        (
            {
                "shutdownGracePeriodByPodPriority": [{"priority": 1}],
                "featureGates": {"GracefulNodeShutdownBasedOnPodPriority": False},
            },
            "requires feature gate GracefulNodeShutdownBasedOnPodPriority",
        ),
        (
            {"shutdownGracePeriod": "5s", "shutdownGracePeriodByPodPriority": [{"priority": 1}]},
            "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod",
        ),
        ({"memorySwap": {"swapBehavior": "x"}}, 'memorySwap.swapBehavior "x" must be one of'),
        ({"crashLoopBackOff": {"maxContainerRestartPeriod": "301s"}}, "(got: 301 seconds) must be set between"),
        ({"enforceNodeAllocatable": ["pods", "pods"]}, 'duplicated enforcements "pods"'),
        ({"enforceNodeAllocatable": ["none", "pods"]}, "may not contain additional enforcements"),
        ({"enforceNodeAllocatable": ["all"]}, 'option "all" specified for enforceNodeAllocatable'),
        ({"enforceNodeAllocatable": ["kube-reserved"]}, "kubeReservedCgroup (--kube-reserved-cgroup) must be"),
        ({"cgroupsPerQOS": False}, "cgroupsPerQOS (--cgroups-per-qos) must be set to true"),
        (
            {
                "enforceNodeAllocatable": ["system-reserved", "system-reserved-compressible"],
                "systemReservedCgroup": "/s",
            },
            "cannot be specified together",
        ),
        ({"hairpinMode": "x"}, 'option "x" specified for hairpinMode'),
        ({"imagePullCredentialsVerificationPolicy": "x"}, 'option "x" specified for imagePullCredentials'),
        ({"preloadedImagesVerificationAllowlist": ["a"]}, "can't set `preloadedImagesVerificationAllowlist`"),
        (
            {
                "imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages",
                "preloadedImagesVerificationAllowlist": ["a:1"],
            },
            "invalid image pattern in `preloadedImagesVerificationAllowlist`: neither tag nor digest is accepted",
        ),
        ({"reservedSystemCPUs": "0-"}, "unable to parse reservedSystemCPUs (--reserved-cpus) 0-"),
        ({"reservedSystemCPUs": "0", "kubeReservedCgroup": "/k"}, "can't use reservedSystemCPUs"),
        ({"reservedMemory": [{"numaNode": 0, "limits": {"cpu": "1"}}]}, 'the limit type "cpu" for NUMA node 0'),
        ({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "0"}}]}, "may not be zero"),
        ({"reservedMemory": [{"numaNode": 0, "limits": MI}, {"numaNode": 0, "limits": MI}]}, "duplicate value"),
        ({"userNamespaces": {"idsPerPod": 1}}, "must not be less than 65536"),
        ({"userNamespaces": {"idsPerPod": 65537}}, "must be a multiple of 65536"),
        ({"userNamespaces": {"idsPerPod": 1 << 32}}, "must not be more than 4294967295"),
        ({"memoryThrottlingFactor": 1.5}, "must be greater than 0 and less than or equal to 1.0"),
        ({"memoryReservationPolicy": "x"}, 'option "x" specified for memoryReservationPolicy'),
        ({"enableSystemLogQuery": True, "enableSystemLogHandler": False}, "enableSystemLogHandler is required"),
        ({"containerLogMaxWorkers": 0}, "containerLogMaxWorkers must be greater than or equal to 1"),
        ({"containerLogMonitorInterval": "2s"}, "greater than or equal to 3s"),
        ({"containerLogMaxFiles": 1}, "containerLogMaxFiles must be greater than 1"),
        ({"containerLogMaxSize": "big"}, 'containerLogMaxSize "big" is not a quantity'),
        ({"podLogsDir": "logs"}, 'pod logs path "logs" must be absolute path'),
        ({"podLogsDir": "/a//b"}, "must be normalized"),
        ({"allowedUnsafeSysctls": ["kernel.panic"]}, 'the sysctls "kernel.panic" are not known to be namespaced'),
        ({"defaultPodSysctls": {"net.core.somaxconn": "1"}}, "DefaultPodSysctls feature gate is required"),
        ({"registerWithTaints": [{"key": "a", "effect": "x"}]}, "invalid taint: a=:x"),
        ({"cgroupDriver": "x"}, 'cgroupDriver (--cgroup-driver) "x"'),
        ({"clusterDNS": ["dns"]}, 'clusterDNS "dns" is not an IP address'),
        ({"authorization": {"mode": "x"}}, 'unknown authorization mode "x"'),
        ({"systemReserved": {"gpu": "1"}}, 'cannot reserve "gpu" resource'),
        ({"logging": {"format": "xml"}}, "Unsupported log format"),
        ({"cpuManagerPolicy": "x"}, "unknown cpuManagerPolicy"),
        ({"memoryManagerPolicy": "x"}, "unknown memoryManagerPolicy"),
    ],
)
def test_what_upstream_refuses_is_refused(fields: dict[str, Any], problem: str) -> None:
    found = problems(**fields)
    assert any(problem in one for one in found), found
    assert all(one.startswith("invalid configuration: ") for one in found)


def test_all_problems_are_told() -> None:
    assert len(problems(maxPods=-1, podsPerCore=-1)) == 2
