# SPDX-License-Identifier: Apache-2.0
"""Metrics of existing and created claims, under upstream's names."""

from __future__ import annotations

from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.controllers.resourceclaim.policy import ANNOTATION, EXTENDED, has_admin_access
from kubeloop.metrics import MetricRegistry

_PREFIX = "dynamic_resource_allocation"


class ResourceClaimMetrics:
    """Metrics of claims; also an event handler of the claims' informer, so that nothing has to be listed."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._claims = registry.gauge(f"{_PREFIX}_resource_claims", "allocated", "admin_access", "source")
        self._made = registry.counter(
            f"{_PREFIX}_resourceclaim_creates_total",
            "status",
            "admin_access",
            "owner_api_group",
            "owner_api_kind",
        )

    def record_created(self, claim: ResourceClaim, status: str) -> None:
        """Count a created claim, or a failure."""
        self._made.with_labels(status, _word(has_admin_access(claim)), "", "Pod").value += 1

    def on_add(self, claim: ResourceClaim) -> None:
        """Count a new claim."""
        self._claims.with_labels(*_labels(claim)).value += 1

    def on_update(self, old: ResourceClaim, new: ResourceClaim) -> None:
        """Move a changed claim to its new labels."""
        self.on_delete(old)
        self.on_add(new)

    def on_delete(self, claim: ResourceClaim) -> None:
        """Subtract a deleted claim."""
        self._claims.with_labels(*_labels(claim)).value -= 1


def _labels(claim: ResourceClaim) -> tuple[str, str, str]:
    allocated = _word(claim.status.allocation is not None)
    return allocated, _word(has_admin_access(claim)), _source(claim)


def _source(claim: ResourceClaim) -> str:
    annotations = claim.metadata.annotations or {}
    if annotations.get(EXTENDED) == "true":
        return "extended_resource"
    return "resource_claim_template" if annotations.get(ANNOTATION) else ""


def _word(value: bool) -> str:
    return "true" if value else "false"
