# SPDX-License-Identifier: Apache-2.0
"""Metrics of PodSecurity: evaluations by decision, exemptions and errors."""

from __future__ import annotations

from typing import Final, Literal

from kubeloop import KUBERNETES_VERSION
from kubeloop.apiserver.admission import Attributes
from kubeloop.apiserver.admission.plugins.pod_security.labels import LATEST, LevelVersion
from kubeloop.metrics import MetricRegistry

_OF_REQUEST: Final = ("request_operation", "resource", "subresource")
_RESOURCES: Final = {"pods": "pod", "namespaces": "namespace"}
_MINOR: Final = int(KUBERNETES_VERSION.split(".")[1])

Mode = Literal["enforce", "audit", "warn"]


class PodSecurityMetrics:
    """Counters of evaluations, exemptions and errors."""

    def __init__(self, registry: MetricRegistry) -> None:
        counter = registry.counter
        self._evaluations = counter(
            "pod_security_evaluations_total", "decision", "policy_level", "policy_version", "mode", *_OF_REQUEST
        )
        self._exemptions = counter("pod_security_exemptions_total", *_OF_REQUEST)
        self._errors = counter("pod_security_errors_total", "fatal", *_OF_REQUEST)
        for operation in ("create", "update"):
            self._evaluations.with_labels("allow", "privileged", "latest", "enforce", operation, "pod", "")
            self._exemptions.with_labels(operation, "pod", "")
            self._exemptions.with_labels(operation, "controller", "")

    def count_evaluation(self, policy: LevelVersion, mode: Mode, attempt: Attributes, *, allowed: bool) -> None:
        """Count a decision about a request; upstream counts those of audit and warn only if they are denials."""
        decision = "allow" if allowed else "deny"
        labels = (decision, policy.level, _version(policy), mode, *_labels(attempt))
        self._evaluations.with_labels(*labels).value += 1

    def count_exemption(self, attempt: Attributes) -> None:
        """Count an exempt request."""
        self._exemptions.with_labels(*_labels(attempt)).value += 1

    def count_error(self, attempt: Attributes) -> None:
        """Count a request whose policy is malformed: it is evaluated with the most restricted one."""
        self._errors.with_labels("false", *_labels(attempt)).value += 1


def _labels(attempt: Attributes) -> tuple[str, str, str]:
    resource = _RESOURCES.get(attempt.resource.group_resource, "controller")
    return attempt.operation.lower(), resource, attempt.subresource


def _version(policy: LevelVersion) -> str:
    """Return the version of a policy: privileged ones have none, and the future ones are not told apart."""
    if policy.level == "privileged" or policy.version == LATEST:
        return "latest"
    return f"v1.{policy.version}" if policy.version <= _MINOR else "future"
