# SPDX-License-Identifier: Apache-2.0
"""Reports type-checking warnings about the expressions of validating admission policies in their status.

Watches: validating admission policies.
Owns: nothing.
Writes: policies' status, by server-side apply: warnings, and their generation.
Wakes itself: never.
Differs from upstream: types that warnings name are numbered 0 (objects) and 1 (parameters) instead of by time. Schemas
  of built-in kinds come from the server too, so that they match its version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kubeloop.api import codec
from kubeloop.api.generated.admissionregistration_v1 import (
    ExpressionWarning,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
)
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.queue.workqueue import WorkQueue

if TYPE_CHECKING:
    from kubeloop.controllers.validatingadmissionpolicy_status.type_checker import PolicyTypeChecker

NAME: Final = "validatingadmissionpolicy-status-controller"
MANAGER: Final = "validatingadmissionpolicy-status"  # upstream's name of the queue and of the field manager


def wire(context: ControllerContext) -> Controller[str]:
    """Build the controller and register its event handlers."""
    policies = context.informers.for_resource(resource_of_class(ValidatingAdmissionPolicy))
    reconciler = Reconciler(context.client, policies, context.clock)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=MANAGER, registry=context.telemetry.registry)
    workers = context.config.concurrent_validating_admission_policy_status_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    controller.watches(policies, lambda policy: (policy.metadata.name,), _is_unseen)
    return controller


class Reconciler:
    """Checks policies by name."""

    def __init__(self, client: Client, policies: Informer, clock: Clock) -> None:
        self._client = client
        self._policies = policies
        self._clock = clock
        self._checker: PolicyTypeChecker | None = None

    async def reconcile(self, key: str) -> None:
        """Check one policy and apply the warnings."""
        policy: ValidatingAdmissionPolicy | None = self._policies.get("", key)
        if policy is None or not needs_check(policy):
            return
        warnings = [codec.to_plain(one) for one in await self._check(policy.spec)]
        checking = {"expressionWarnings": warnings} if warnings else {}
        status = {"observedGeneration": policy.metadata.generation, "typeChecking": checking}
        applied = {
            "apiVersion": policy.api_version,
            "kind": policy.kind,
            "metadata": {"name": key},
            "status": status,
        }
        await self._client.apply(applied, manager=MANAGER, force=True, subresource="status")

    async def _check(self, spec: ValidatingAdmissionPolicySpec) -> tuple[ExpressionWarning, ...]:
        if self._checker is None:
            # The CEL modules are slow to import, and many clusters have no policies.
            from kubeloop.controllers.validatingadmissionpolicy_status.type_checker import PolicyTypeChecker

            self._checker = PolicyTypeChecker(self._client, self._clock)
        return await self._checker.check(spec)


def needs_check(policy: ValidatingAdmissionPolicy) -> bool:
    """Return True if the current generation was not checked yet."""
    return policy.metadata.generation > policy.status.observed_generation


def _is_unseen(_: Any, new: Any) -> bool:
    return new is not None and needs_check(new)
